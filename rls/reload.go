package rls

import (
	"context"
	"os"
)

// Reload reads the configuration, whether or not its files have changed, and puts it in force. If it is wrong, the
// configuration before stays in force.
//
// Errors: *[ConfigError].
func (s *Server) Reload() error {
	s.reading.Lock()
	s.read = false
	s.reading.Unlock()
	_, err := s.reload()
	return err
}

// reloadAt reloads for each signal, until ctx ends.
func (s *Server) reloadAt(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case signal, ok := <-signals:
			if !ok {
				return
			}
			s.config.Log.Info("rls: reload", "signal", signal.String())
			if err := s.Reload(); err != nil {
				s.config.Log.Error("rls: the configuration is wrong, the one before stays in force",
					"path", s.config.Path, "error", err)
			}
		}
	}
}
