package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
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
	failures := &guard.FailureLog{
		Log: log, Up: "rrl: Redis answers again", Down: "rrl: Redis does not answer, the rules' on_failure decides",
		Failed: "rrl: a request cannot be decided, its rule's on_failure decides",
	}
	options := []httplimit.Option{
		httplimit.Deadline(s.config.Deadline), httplimit.OnRedisChange(failures.RedisChanged),
		httplimit.Report(func(_ *http.Request, o limit.Outcome) {
			if o.Result == limit.FailedOpen || o.Result == limit.FailedClosed {
				failures.RequestFailed(o.Err) // for instance since a proxy is not trusted
			}
		}),
	}
	if s.config.Shadow {
		options = append(options, httplimit.Shadow())
	}
	mux := http.NewServeMux()
	mux.Handle("/auth", set.ForwardAuth(client, options...))
	return mux, nil
}

func firstOf(err error, path string) error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		all := joined.Unwrap()
		return fmt.Errorf("%w (the first of %d errors, rrl rules check %s reports all)", all[0], len(all), path)
	}
	return err
}
