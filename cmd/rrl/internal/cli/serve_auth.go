package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/rules"
)

// auth returns the handler of /auth, which decides requests for nginx, Traefik and Caddy by the file of
// --rules. It returns nil without that file.
func (s *service) auth(ctx context.Context, client *rratelimiter.Client, log *slog.Logger) (http.Handler, error) {
	if s.rules == "" {
		return nil, nil
	}
	set, err := rules.Watch(ctx, s.rules, rules.OnReload(func(err error) {
		if err != nil {
			log.Error("rrl: the rules are wrong, the ones before stay in force", "path", s.rules, "error", err)
			return
		}
		log.Info("rrl: rules in force", "path", s.rules)
	}))
	if err != nil {
		return nil, firstOf(err, s.rules)
	}
	log.Info("rrl: rules in force", "path", s.rules)
	failures := &failureLog{log: log}
	options := []httplimit.Option{
		httplimit.Deadline(s.config.Deadline), httplimit.Report(failures.report), httplimit.OnRedisChange(failures.redis),
	}
	if s.config.Shadow {
		options = append(options, httplimit.Shadow())
	}
	mux := http.NewServeMux()
	mux.Handle("/auth", set.ForwardAuth(client, options...))
	return mux, nil
}

// failureLog logs requests that cannot be decided, for instance since a proxy is not trusted. It logs an
// outage of Redis once, and other failures once in a while.
type failureLog struct {
	log  *slog.Logger
	mu   sync.Mutex
	down bool
	last time.Time // of a line about a request
}

func (l *failureLog) redis(up bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = !up
	if up {
		l.log.Info("rrl: Redis answers again")
	} else {
		l.log.Error("rrl: Redis does not answer, the rules' on_failure decides", "error", err)
	}
}

func (l *failureLog) report(_ *http.Request, o httplimit.Outcome) {
	if o.Result != httplimit.FailedOpen && o.Result != httplimit.FailedClosed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); !l.down && now.Sub(l.last) >= remind {
		l.last = now
		l.log.Error("rrl: a request cannot be decided, its rule's on_failure decides", "error", o.Err)
	}
}

func firstOf(err error, path string) error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		all := joined.Unwrap()
		return fmt.Errorf("%w (the first of %d errors, rrl rules check %s reports all)", all[0], len(all), path)
	}
	return err
}
