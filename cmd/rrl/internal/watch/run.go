package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/screen"
)

// Run takes samples until ctx ends, or count times if count is above 0. It fails if the first sample fails,
// and shows the failure of a later one. On a terminal it draws, and restores the terminal at the end.
// Otherwise it writes a line per sample, or JSON.
func (w *Watcher) Run(ctx context.Context, out io.Writer, where string, every time.Duration, count int, json bool,
) (err error) {
	samples, err := w.Look(ctx)
	if err != nil && ctx.Err() == nil {
		return err // it stays readable on the screen
	}
	view := &View{Where: where}
	var terminal *screen.Terminal
	if file, ok := out.(*os.File); ok && !json && screen.CanDraw(out) {
		if terminal, err = screen.OpenTerminal(file); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, terminal.Close()) }()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for n := 1; ctx.Err() == nil; n++ {
		if err := show(out, terminal, view, samples, json); err != nil || n == count {
			return err
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
			if samples, err = w.Look(ctx); err != nil {
				samples = w.Without(err)
			}
		}
	}
	return nil
}

func show(out io.Writer, terminal *screen.Terminal, view *View, samples []Sample, json bool) error {
	if terminal != nil {
		view.Add(samples)
		return terminal.Draw(view.Lines(terminal.Size()))
	}
	for _, s := range samples {
		var err error
		if json {
			err = report.JSON(out, s)
		} else {
			_, err = fmt.Fprintln(out, s.Plain())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
