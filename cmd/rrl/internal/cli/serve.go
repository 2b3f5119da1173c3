package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

type service struct {
	grpc, http string
	certs      certFiles
	age        time.Duration
	rules      string // the file for /auth
	prefix     string
	prefetch   time.Duration
	debug      bool
	config     rls.Config
}

func (a *app) serve() *cobra.Command {
	var s service
	cmd := &cobra.Command{
		Use:   "serve [PATH]",
		Short: "Serve limits to Envoy, and over HTTP to nginx, Traefik and Caddy",
		Long: `serve is a rate limit service. For Envoy it has envoy.service.ratelimit.v3 and gRPC's health over
gRPC, and /json, /healthcheck, /rlconfig and /metrics over HTTP. PATH is a file of
envoyproxy/ratelimit's format, or a folder of them. For nginx, Traefik and Caddy it has /auth over
HTTP; --rules names the file, in the format of package rules. PATH, --rules or both are needed;
without PATH there is no gRPC. Changed files take effect at once. If a file is invalid, the service
logs the error and keeps the old rules.

It starts also while Redis cannot be reached, and ends with exit code 2 if Redis rejects it.
SIGTERM and SIGINT end it with exit code 0: its health reports the shutdown first, after --drain it
takes no more requests, and those under way have five seconds. SIGHUP rereads all files.
The log goes to the standard error, as JSON with -o json. Both addresses are for proxies only.`,
		Example: `  rrl serve /etc/rls --redis redis://redis:6379 --drain 5s
  rrl serve limits.yaml --grpc unix:/run/rls/rrl.sock --http ""
  rrl serve --rules rules.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				s.config.Path = args[0]
			} else if !cmd.Flags().Changed("grpc") {
				s.grpc = ""
			}
			return s.run(cmd.Context(), a)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.grpc, "grpc", ":8081", `the address of gRPC: HOST:PORT, :PORT or unix:PATH; "" for none`)
	flags.StringVar(&s.certs.Cert, "grpc-tls-cert", "", "a PEM file with the service's certificate, for TLS on --grpc")
	flags.StringVar(&s.certs.Key, "grpc-tls-key", "", "a PEM file with its key")
	flags.StringVar(&s.certs.ClientCA, "grpc-tls-client-ca", "",
		"a PEM file with certificate authorities; only clients with a certificate of one may connect")
	flags.DurationVar(&s.age, "grpc-max-connection-age", 0,
		"the age, plus or minus a tenth, at which a client is asked to reconnect; 0 for never")
	flags.StringVar(&s.http, "http", ":8080", `the address of HTTP: HOST:PORT, :PORT or unix:PATH; "" for none`)
	flags.StringVar(&s.rules, "rules", "", "a file of rules, for nginx, Traefik and Caddy at /auth of --http")
	flags.StringVar(&s.prefix, "prefix", "",
		"the prefix of all keys in Redis, without braces; services with different prefixes share no limits")
	flags.DurationVar(&s.config.Drain, "drain", 0, "how long requests are answered after the health reports the shutdown")
	flags.DurationVar(&s.config.Deadline, "deadline", 500*time.Millisecond, "the deadline of the Redis call of a request")
	flags.DurationVar(&s.prefetch, "prefetch", 0,
		"prefetch permits of busy keys, and grant them from memory for so long, 1ms to 1s")
	flags.BoolVar(&s.debug, "debug", false, "log each request with the limits or rules that match it")
	flags.BoolVar(&s.config.Merge, "merge", false, "allow several files with one domain")
	flags.BoolVar(&s.config.Shadow, "shadow", false, "let every request pass and count requests over a limit")
	flags.BoolVar(&s.config.Quota, "quota", false, "put every descriptor into quota mode")
	flags.BoolVar(&s.config.Headers, "headers", false,
		"give Envoy RateLimit-Limit, -Remaining and -Reset for its responses")
	flags.BoolVar(&s.config.Metadata, "metadata", false,
		"give Envoy the request and the descriptors' metadata for its filters")
	flags.Float64Var(&s.config.NearLimit, "near-limit", 0.8,
		"the share of a limit above which metrics count hits as near it")
	return cmd
}

// check checks flags and files before the service connects.
func (s *service) check() error {
	c := &s.config
	switch {
	case c.Path == "" && s.rules == "":
		return errors.New("want PATH, a file or folder of limits for Envoy, or --rules")
	case s.grpc == "" && s.http == "":
		return errors.New(`--grpc "" --http "": want at least one address`)
	case c.Path == "" && s.grpc != "":
		return errors.New("--grpc requires PATH: a file or folder of limits for Envoy")
	case s.rules != "" && s.http == "":
		return errors.New("--rules requires --http")
	case s.grpc == "" && s.certs != certFiles{}:
		return errors.New("--grpc-tls-cert, --grpc-tls-key and --grpc-tls-client-ca require --grpc")
	case (s.certs.Cert == "") != (s.certs.Key == ""):
		return errors.New("--grpc-tls-cert and --grpc-tls-key go together: give both or none")
	case s.certs.ClientCA != "" && s.certs.Cert == "":
		return errors.New("--grpc-tls-client-ca requires --grpc-tls-cert and --grpc-tls-key")
	case s.age < 0:
		return fmt.Errorf("--grpc-max-connection-age %v: want 0 or more", s.age)
	case strings.ContainsAny(s.prefix, "{}"):
		return fmt.Errorf("--prefix %q: want no braces, which choose the slot in a cluster", s.prefix)
	case c.Drain < 0:
		return fmt.Errorf("--drain %v: want 0 or more", c.Drain)
	case c.Deadline <= 0:
		return fmt.Errorf("--deadline %v: want a time above 0", c.Deadline)
	case s.prefetch != 0 &&
		(s.prefetch < time.Millisecond || s.prefetch > time.Second || s.prefetch%time.Millisecond != 0):
		return fmt.Errorf("--prefetch %v: want whole milliseconds from 1ms to 1s, or 0 for none", s.prefetch)
	case c.NearLimit <= 0 || c.NearLimit > 1:
		return fmt.Errorf("--near-limit %v: want a share above 0, at most 1", c.NearLimit)
	}
	if c.Path != "" {
		if _, err := rls.Load(c.Path, c.Merge); err != nil {
			return firstOf(err, c.Path)
		}
	}
	if s.rules != "" {
		if _, err := rules.Load(s.rules); err != nil {
			return firstOf(err, s.rules)
		}
	}
	return nil
}

func (s *service) run(ctx context.Context, a *app) error {
	if err := s.check(); err != nil {
		return err
	}
	log := a.logger(s.debug)
	slog.SetDefault(log) // of package rules
	options, err := s.grpcOptions(log)
	if err != nil {
		return err
	}
	c := s.config
	if c.GRPC, err = listen(ctx, "--grpc", s.grpc); err != nil {
		return err
	}
	if c.GRPC != nil {
		defer c.GRPC.Close() //nolint:errcheck // Serve has closed it, unless there was an error before
	}
	if c.HTTP, err = listen(ctx, "--http", s.http); err != nil {
		return err
	}
	if c.HTTP != nil {
		defer c.HTTP.Close() //nolint:errcheck // likewise
	}
	a.connection.Serves = true
	if err := a.open(ctx, true); connect.IsUnreachable(err) && ctx.Err() == nil {
		log.Warn("rrl: Redis cannot be reached, and nothing is counted until it can", "error", err)
		a.redis = a.connection.Late(err)
	} else if ctx.Err() != nil {
		return nil // a signal ended the attempt
	} else if err != nil {
		return err
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx)) // while draining too
	defer cancel()
	reloads := forkSignals(watching, a.hangup)
	c.Client, c.Log, c.Options, c.Reload = a.limiters(s.clientOptions()...), log, options, reloads[0]
	if c.Other, err = s.auth(watching, c.Client, log, reloads[1]); err != nil {
		return err
	}
	defer s.giveBack(ctx, c.Client, log)
	log.Info("rrl: serving", "grpc", addressOf(c.GRPC), "http", addressOf(c.HTTP), "redis", a.redis.Where)
	defer context.AfterFunc(ctx, func() { log.Info("rrl: ending", "drain", c.Drain) })()
	if err := rls.Serve(ctx, c); err != nil {
		return err
	}
	log.Info("rrl: ended")
	return nil
}

// streamWorkers is the number of goroutines that serve streams. A further stream gets a new goroutine,
// whose stack has to grow first.
const streamWorkers = 256

// graceTime is for requests under way on a connection that has reached its maximum age.
const graceTime = 10 * time.Second

// grpcOptions returns the options of the gRPC server.
func (s *service) grpcOptions(log *slog.Logger) ([]grpc.ServerOption, error) {
	options := []grpc.ServerOption{grpc.NumStreamWorkers(streamWorkers)}
	if s.age > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: s.age, MaxConnectionAgeGrace: graceTime,
		}))
	}
	if s.certs.Cert == "" {
		return options, nil
	}
	config, err := s.certs.serverTLS(log)
	if err != nil {
		return nil, fmt.Errorf("--grpc-tls-cert, --grpc-tls-key, --grpc-tls-client-ca: %w", err)
	}
	return append(options, grpc.Creds(credentials.NewTLS(config))), nil
}

func (s *service) clientOptions() (options []rratelimiter.Option) {
	if s.prefetch > 0 {
		options = append(options, rratelimiter.WithPrefetch(s.prefetch))
	}
	if s.prefix != "" {
		options = append(options, rratelimiter.WithNameMapper(func(name string) string { return s.prefix + name }))
	}
	return options
}

func (s *service) giveBack(ctx context.Context, client *rratelimiter.Client, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		log.Warn("rrl: prefetched permits stay taken until they expire", "error", err)
	}
}

func (a *app) logger(debug bool) *slog.Logger {
	options := &slog.HandlerOptions{}
	if debug {
		options.Level = slog.LevelDebug
	}
	if a.json() {
		return slog.New(slog.NewJSONHandler(a.err, options))
	}
	return slog.New(slog.NewTextHandler(a.err, options))
}

// forkSignals returns two channels that get the signals of one, until ctx ends. A signal is lost while one waits.
func forkSignals(ctx context.Context, signals <-chan os.Signal) (both [2]chan os.Signal) {
	for i := range both {
		both[i] = make(chan os.Signal, 1)
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case signal := <-signals:
				for _, each := range both {
					select {
					case each <- signal:
					default:
					}
				}
			}
		}
	}()
	return both
}

// auth returns the handler of /auth, which decides requests for nginx, Traefik and Caddy by the file of
// --rules. It returns nil without that file.
func (s *service) auth(ctx context.Context, client *rratelimiter.Client, log *slog.Logger,
	reload <-chan os.Signal) (http.Handler, error) {
	if s.rules == "" {
		return nil, nil
	}
	set, err := rules.Watch(ctx, s.rules, rules.Reload(reload), rules.OnReload(func(err error) {
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
	failures := &outage.FailureLog{
		Log: log, Up: "rrl: Redis answers again", Moved: "rrl: another node of Redis has taken over",
		Down:   "rrl: Redis does not answer, the rules' on_failure decides",
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

// socketMode lets the user and the group of the service connect.
const socketMode = 0o660

// listen listens on an address, or on the unix socket of "unix:PATH". It returns nil for "".
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	network, at := "tcp", address
	path, socket := strings.CutPrefix(address, "unix:")
	if socket {
		network, at = "unix", path
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, at)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w; want HOST:PORT, :PORT or unix:PATH, free of other processes", flag, address, err)
	}
	if socket {
		if err := os.Chmod(path, socketMode); err != nil {
			return nil, errors.Join(fmt.Errorf("%s %q: %w", flag, address, err), l.Close())
		}
	}
	return l, nil
}

// addressOf returns the address of a listener for the log, in the form of a gRPC client.
func addressOf(l net.Listener) string {
	if l == nil {
		return "nowhere"
	}
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}

type certFiles struct {
	Cert     string // the server's certificate, followed by intermediate certificates
	Key      string // its key
	ClientCA string // authorities of clients, read at the start; "" if clients need no certificate
}

// serverTLS returns the configuration of a server. Each new connection gets the present certificate.
func (f certFiles) serverTLS(log *slog.Logger) (*tls.Config, error) {
	c := &certificate{files: f, log: log}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
	if f.ClientCA != "" {
		authorities, err := connect.Authorities(f.ClientCA)
		if err != nil {
			return nil, err
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, authorities
	}
	return config, c.refresh()
}

// certificate is that of two files, read again once both have changed. It is safe for concurrent use.
type certificate struct {
	files certFiles
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	changed [2]time.Time // the times of the files, in current
	failure string       // the last one; it is logged once
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refresh(); err != nil && err.Error() != c.failure {
		c.failure = err.Error()
		c.log.Error("rrl: invalid certificate, the old one stays in force", "error", err)
	}
	return c.current, nil
}

// refresh reads the files if they have changed. After an error it reads them again each time, since one
// file is replaced after the other.
func (c *certificate) refresh() error {
	var changed [2]time.Time
	for i, file := range []string{c.files.Cert, c.files.Key} {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		changed[i] = info.ModTime()
	}
	if changed == c.changed {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", c.files.Cert, c.files.Key, err)
	}
	c.current, c.changed, c.failure = &pair, changed, ""
	until := pair.Leaf.NotAfter.UTC().Format(time.RFC3339)
	c.log.Info("rrl: certificate in force", "file", c.files.Cert, "valid_to", until)
	return nil
}
