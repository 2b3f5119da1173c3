package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/certs"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/rls"
)

// service is the flags of serve.
type service struct {
	grpc, http string
	certs      certs.Files
	age        time.Duration
	prefix     string
	lease      time.Duration
	config     rls.Config
}

func (a *app) serve() *cobra.Command {
	var s service
	cmd := &cobra.Command{
		Use:   "serve PATH",
		Short: "Be the rate limit service that Envoy asks, and over HTTP nginx, Traefik and Caddy",
		Long: `serve is a rate limit service: envoy.service.ratelimit.v3 and gRPC's health over gRPC, and over HTTP
/auth/DOMAIN for nginx, Traefik and Caddy, /json, /healthcheck, /rlconfig and /metrics. PATH is a file of
envoyproxy/ratelimit's format, or a folder of them; rrl rules check PATH reports what is wrong with them. Files that
change take effect at once, also by the swap of a ConfigMap; if a file is wrong, the log reports it, and the rules
before stay in force.

The service listens once Redis answers, and waits for that as long as it takes. If Redis refuses it (its password, for
instance), it ends with exit code 2, as it does if a file is wrong. While it serves, a request that Redis does not
answer ends with an error, and the proxy decides. The log goes to the standard error, with -o json as JSON.

SIGTERM and SIGINT end it with exit code 0: its health reports it first, --drain later it takes no more requests, and
requests under way have five seconds. SIGHUP reads files and certificates again.

Both addresses are for proxies alone. --grpc-tls-cert and --grpc-tls-key are for TLS on --grpc; with
--grpc-tls-client-ca, a client needs a certificate. Certificates that are replaced are in force for the next
connection. HTTP is without TLS.`,
		Example: `  rrl serve /etc/rls --redis redis://redis:6379 --drain 5s
  rrl serve limits.yaml --grpc unix:/run/rls/rrl.sock --http ""`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.config.Path = args[0]
			return s.run(cmd.Context(), a)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.grpc, "grpc", ":8081", `where to listen for Envoy: HOST:PORT, :PORT or unix:PATH; "" for nowhere`)
	flags.StringVar(&s.certs.Cert, "grpc-tls-cert", "", "a PEM file with the service's certificate, for TLS on --grpc")
	flags.StringVar(&s.certs.Key, "grpc-tls-key", "", "a PEM file with its key")
	flags.StringVar(&s.certs.ClientCA, "grpc-tls-client-ca", "",
		"a PEM file with the authorities whose clients may connect; others may not")
	flags.DurationVar(&s.age, "grpc-max-connection-age", 0,
		"tell clients after so long, a tenth more or less, to connect again; 0 for never")
	flags.StringVar(&s.http, "http", ":8080", `where to listen for HTTP; "" for nowhere`)
	flags.IntVar(&s.config.HTTPConns, "http-connections", 1024, "the most connections of --http at once")
	flags.StringVar(&s.prefix, "prefix", "",
		"what all keys in Redis begin with, so that services with other prefixes count apart; without braces")
	flags.DurationVar(&s.config.Drain, "drain", 0, "how long requests are still taken once the health says that the service ends")
	flags.DurationVar(&s.config.Deadline, "deadline", 100*time.Millisecond, "how long Redis has for a request")
	flags.DurationVar(&s.lease, "lease", 0, "take permits ahead for keys that are asked for often, which memory answers then, and give those back that are left after so long: 1ms to 1s")
	flags.BoolVar(&s.config.Merge, "merge", false, "several files may have one domain")
	flags.BoolVar(&s.config.Shadow, "shadow", false, "let every request pass, and count those over a limit")
	flags.BoolVar(&s.config.Quota, "quota", false, "have every descriptor in quota mode")
	flags.BoolVar(&s.config.Headers, "headers", false, "give Envoy RateLimit-Limit, -Remaining and -Reset to add to responses")
	flags.BoolVar(&s.config.Metadata, "metadata", false, "give Envoy the request and its descriptors' metadata for its filters")
	flags.Float64Var(&s.config.NearLimit, "near-limit", 0.8, "from which share of a limit on metrics count hits as near it")
	flags.IntVar(&s.config.MaxSeries, "max-series", 10_000, "of metrics that requests can make")
	return cmd
}

func onePath(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("%s takes one file or folder, got %d; %s --help shows more", cmd.CommandPath(), len(args), cmd.CommandPath())
	}
	return nil
}

// check returns what is wrong with flags and files, before the service waits for Redis.
func (s *service) check() error {
	c := &s.config
	switch {
	case s.grpc == "" && s.http == "":
		return errors.New(`--grpc "" --http "": want an address to listen on for one of them`)
	case s.grpc == "" && s.certs != certs.Files{}:
		return errors.New("--grpc-tls-cert, --grpc-tls-key and --grpc-tls-client-ca are for --grpc, which is nowhere")
	case (s.certs.Cert == "") != (s.certs.Key == ""):
		return errors.New("--grpc-tls-cert and --grpc-tls-key go together: give both or none")
	case s.certs.ClientCA != "" && s.certs.Cert == "":
		return errors.New("--grpc-tls-client-ca wants --grpc-tls-cert and --grpc-tls-key too")
	case s.age < 0:
		return fmt.Errorf("--grpc-max-connection-age %v: want none below 0", s.age)
	case c.HTTPConns < 1:
		return fmt.Errorf("--http-connections %d: want at least 1", c.HTTPConns)
	case strings.ContainsAny(s.prefix, "{}"):
		return fmt.Errorf("--prefix %q: want none with braces, which choose slots of a cluster", s.prefix)
	case c.Drain < 0:
		return fmt.Errorf("--drain %v: want none below 0", c.Drain)
	case c.Deadline <= 0:
		return fmt.Errorf("--deadline %v: want a time above 0", c.Deadline)
	case s.lease != 0 && (s.lease < time.Millisecond || s.lease > time.Second || s.lease%time.Millisecond != 0):
		return fmt.Errorf("--lease %v: want whole milliseconds from 1ms to 1s, or 0 for none", s.lease)
	case c.NearLimit <= 0 || c.NearLimit > 1:
		return fmt.Errorf("--near-limit %v: want a share above 0, at most 1", c.NearLimit)
	case c.MaxSeries < 1:
		return fmt.Errorf("--max-series %d: want at least 1", c.MaxSeries)
	}
	if _, err := rls.Load(c.Path, c.Merge); err != nil {
		return firstOf(err, c.Path)
	}
	return nil
}

// firstOf returns the first mistake of files, in a line.
func firstOf(err error, path string) error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) && len(joined.Unwrap()) > 1 {
		all := joined.Unwrap()
		return fmt.Errorf("%w (the first of %d mistakes, rrl rules check %s shows them)", all[0], len(all), path)
	}
	return err
}

// run serves until ctx ends.
func (s *service) run(ctx context.Context, a *app) error {
	if err := s.check(); err != nil {
		return err
	}
	log := a.logger()
	options, reload, err := s.grpcOptions(log)
	if err != nil {
		return err
	}
	hangups := forward(ctx, a.hangup, reload)
	a.connection.Serves = true
	redis, err := a.await(ctx, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil // a signal ended the wait
		}
		return err
	}
	defer redis.Close()
	c := s.config
	c.Client, c.Log, c.Options, c.Reload = a.limiters(redis, s.clientOptions()...), log, options, hangups
	if c.GRPC, err = listenGRPC(ctx, s.grpc); err != nil {
		return err
	}
	if c.HTTP, err = listen(ctx, "--http", s.http); err != nil {
		if c.GRPC != nil {
			_ = c.GRPC.Close() // no client has connected yet
		}
		return err
	}
	defer s.giveBack(ctx, c.Client, log)
	log.Info("rrl: serving", "grpc", where(c.GRPC), "http", where(c.HTTP), "redis", redis.Where)
	defer context.AfterFunc(ctx, func() { log.Info("rrl: ending", "drain", c.Drain) })()
	if err := rls.Serve(ctx, c); err != nil {
		return err
	}
	log.Info("rrl: ended")
	return nil
}

// clientOptions returns the options of the Client of the limiters.
func (s *service) clientOptions() (options []rratelimiter.Option) {
	if s.lease > 0 {
		options = append(options, rratelimiter.WithLease(s.lease))
	}
	if s.prefix != "" {
		options = append(options, rratelimiter.WithNameMapper(func(name string) string { return s.prefix + name }))
	}
	return options
}

// forward calls reload for each signal, and passes the signal on. Signals that arrive faster than
// they are received become one.
func forward(ctx context.Context, signals <-chan os.Signal, reload func()) <-chan os.Signal {
	forwarded := make(chan os.Signal, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case signal := <-signals:
				reload()
				select {
				case forwarded <- signal:
				default:
				}
			}
		}
	}()
	return forwarded
}

// giveBack releases leased permits that are not used.
func (s *service) giveBack(ctx context.Context, client *rratelimiter.Client, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		log.Warn("rrl: leased permits stay taken until they expire", "error", err)
	}
}

const (
	retry  = time.Second      // between two attempts to connect
	remind = 30 * time.Second // between two equal lines of the log
)

// await connects as soon as Redis answers.
func (a *app) await(ctx context.Context, log *slog.Logger) (*connect.Redis, error) {
	said, when := "", time.Time{}
	for {
		redis, _, err := a.open(ctx, true)
		if err == nil || ctx.Err() != nil || !connect.IsAway(err) {
			return redis, err
		}
		if text := err.Error(); text != said || time.Since(when) >= remind {
			said, when = text, time.Now()
			log.Warn("rrl: waiting for Redis, nothing is served yet", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retry):
		}
	}
}

// logger returns the log of a service.
func (a *app) logger() *slog.Logger {
	if a.json() {
		return slog.New(slog.NewJSONHandler(a.err, nil))
	}
	return slog.New(slog.NewTextHandler(a.err, nil))
}
