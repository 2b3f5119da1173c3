// Package cli is the command line of rrl: commands, arguments, flags and exit codes, and the listeners and
// certificates of rrl serve.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/report"
	"github.com/rratelimiter/rratelimiter/internal/policy"
)

const (
	exitDone   = 0
	exitDenied = 1 // try was denied, audit found a problem or skipped keys, set --if-absent found a rate
	exitError  = 2
	exitPart   = 3 // ls, audit or watch could not read a part of a cluster
)

// errDenied ends a command with exitDenied and without a message.
var errDenied = errors.New("denied")

// incompleteError returns the error of servers whose limiters are missing in the output.
func incompleteError(missing []inspect.Missing) error {
	if len(missing) == 0 {
		return nil
	}
	reasons := make([]string, len(missing))
	for i, m := range missing {
		reasons[i] = m.Err.Error()
	}
	return &inspect.PartError{Err: fmt.Errorf("the limiters of %s were not read: %s",
		report.Plural(int64(len(missing)), "server"), strings.Join(reasons, "; "))}
}

type app struct {
	out, err   io.Writer
	connection connect.Options
	format     string
	serverTime bool
	clock      func() time.Time // instead of this host's; may be nil
	hangup     <-chan os.Signal // SIGHUP; nil if it is ignored

	redis  *connect.Redis // of open; run closes it
	reader *inspect.Reader
}

// Main runs the tool on the standard input and output and returns the exit code.
func Main(args []string) int {
	var hangup chan os.Signal
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		hangup = make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	return (&app{out: os.Stdout, err: os.Stderr, hangup: hangup}).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	failure := root.ExecuteContext(ctx)
	a.close()
	var part *inspect.PartError
	switch {
	case failure == nil:
		return exitDone
	case errors.As(failure, &part):
		a.say("rrl: %s\n", report.Printable(failure.Error()))
		return exitPart
	case errors.Is(failure, errDenied):
		return exitDenied
	case errors.Is(failure, context.Canceled):
		a.say("rrl: interrupted\n")
	case errors.Is(failure, syscall.EPIPE):
		// The reader has closed the output.
	default:
		a.say("rrl: %s\n", report.Printable(failure.Error()))
	}
	return exitError
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "rrl",
		Short: "Inspect, exercise, configure and repair rate limiters in Redis, and serve them to proxies",
		Long: `rrl inspects, exercises, configures and repairs rate limiters in Redis: Redisson's RRateLimiter,
used by Java or Go programs, and those of rratelimiter's package limit. rrl serve is a rate limit
service for Envoy and other proxies; rrl rules check checks its files, and those of package rules.

rrl demo shows the tool without a Redis.

Exit codes: 0 success; 1 try was denied, audit found a problem or skipped keys, or set --if-absent
found a rate; 2 an error, or show of a corrupt limiter; 3 ls, audit or watch could not read a part
of a cluster.`,
		Version:       installed(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	// The texts of commands fit into 100 columns as they are.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 100"))
	flags := root.PersistentFlags()
	flags.StringVar(&a.connection.URL, "redis", "",
		"the Redis: redis://USER@HOST:PORT/DB, rediss:// for TLS, ?addr=HOST:PORT for more\n"+
			"nodes, ?master_set=NAME for Sentinel; a cluster is detected\n(default REDIS_URL, or "+connect.DefaultURL+")")
	flags.StringVar(&a.connection.PasswordFile, "password-file", "",
		"a file with the password; it takes precedence over the URL")
	flags.StringVar(&a.connection.SentinelPasswordFile, "sentinel-password-file", "",
		"a file with the password of the sentinels themselves")
	flags.StringVar(&a.connection.CA, "tls-ca", "", "a PEM file with the trusted certificate authorities")
	flags.StringVar(&a.connection.Cert, "tls-cert", "", "a PEM file with this client's certificate")
	flags.StringVar(&a.connection.Key, "tls-key", "", "a PEM file with its key")
	flags.DurationVar(&a.connection.Timeout, "timeout", 5*time.Second, "the deadline of connecting and of each command")
	flags.StringVarP(&a.format, "output", "o", "text", "text or json")
	flags.BoolVar(&a.serverTime, "server-time", false,
		"use the clock of the Redis server, as programs with WithServerTime do")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Name() != "serve" && a.hangup != nil { // serve reads its files again
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			context.AfterFunc(ctx, stop)
			cmd.SetContext(ctx)
		}
		switch {
		case a.format != "text" && a.format != "json":
			return fmt.Errorf("-o %q: want text or json", a.format)
		case a.connection.Timeout <= 0:
			return fmt.Errorf("--timeout %v: want a time above 0", a.connection.Timeout)
		}
		return nil
	}
	root.AddCommand(a.ls(), a.show(), a.watch(), a.try(), a.set(), a.reset(), a.release(), a.pause(), a.audit(), a.demo(),
		a.serve(), a.rules())
	return root
}

// open connects until the end of the run. It rejects a command that makes changes if the server is a
// replica.
func (a *app) open(ctx context.Context, changes bool) (err error) {
	if a.connection.URL == "" {
		a.connection.URL = os.Getenv("REDIS_URL")
	}
	a.close() // of an attempt before
	if a.redis, err = connect.Open(ctx, a.connection); err != nil {
		return err
	}
	if a.redis.Replica && changes {
		return fmt.Errorf("%s is a replica and rejects changes: name its master by --redis", a.redis.Where)
	}
	if a.redis.Replica {
		a.say("rrl: %s is a replica: the output may be stale\n", a.redis.Where)
	}
	a.reader = &inspect.Reader{Redis: a.redis, Now: a.now}
	if a.serverTime {
		began := a.now()
		server, err := a.reader.ServerTime(ctx)
		if err != nil {
			return err
		}
		ahead := server.Sub(began.Add(a.now().Sub(began) / 2)) // of this host's clock
		a.reader.Now = func() time.Time { return a.now().Add(ahead) }
	}
	return nil
}

func (a *app) close() {
	if a.redis != nil {
		a.redis.Close()
	}
}

func (a *app) limiters(options ...rratelimiter.Option) *rratelimiter.Client {
	return rratelimiter.New(a.redis.Client, append(options, a.byClock()...)...)
}

func (a *app) byClock() []rratelimiter.Option {
	switch {
	case a.serverTime:
		return []rratelimiter.Option{rratelimiter.WithServerTime()}
	case a.clock != nil:
		return []rratelimiter.Option{rratelimiter.WithClock(a.clock)}
	}
	return nil
}

func (a *app) now() time.Time {
	if a.clock != nil {
		return a.clock()
	}
	return time.Now()
}

func (a *app) json() bool { return a.format == "json" }

func (a *app) explain(err error) error {
	var said *rueidis.RedisError
	var state *rratelimiter.StateError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &state):
		return fmt.Errorf("%w (rrl show reports what is wrong)", err)
	case errors.Is(err, rratelimiter.ErrNotInitialized):
		return fmt.Errorf("%w; rrl set sets its rate, rrl ls lists the limiters", err)
	case errors.As(err, &said):
		return a.redis.Explain(said)
	}
	return a.redis.Explain(err)
}

// print writes a result in the format of --output.
func (a *app) print(value any, text func(*strings.Builder)) error {
	if a.json() {
		return report.JSON(a.out, value)
	}
	var all strings.Builder
	text(&all)
	_, err := io.WriteString(a.out, all.String())
	return err
}

// say writes a message to the standard error.
func (a *app) say(format string, values ...any) {
	_, _ = fmt.Fprintf(a.err, format, values...) // a failure does not affect the result
}

// withNames unquotes the arguments of a command, which may be names in the form that rrl prints.
func withNames(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		unquoted := make([]string, len(args))
		for i, arg := range args {
			unquoted[i] = names.Unquote(arg)
		}
		return run(cmd, unquoted)
	}
}

func noEmptyName(cmd *cobra.Command, args []string) error {
	if slices.Contains(args, "") {
		return fmt.Errorf("%s takes the names of limiters, not an empty one", cmd.CommandPath())
	}
	return nil
}

// oneName requires one argument that is not empty, and nameAndValue two.
var (
	oneName      = cobra.MatchAll(cobra.ExactArgs(1), noEmptyName)
	nameAndValue = cobra.MatchAll(cobra.ExactArgs(2), noEmptyName)
)

func policyFlag(cmd *cobra.Command, policies *[]string, usage string) {
	cmd.Flags().StringArrayVar(policies, "policy", nil, usage+":\n"+policy.Help())
}

func parse(policies []string) ([]names.Given, error) {
	var given []names.Given
	for _, text := range policies {
		g, err := names.ParsePolicy(text)
		if err != nil {
			return nil, err
		}
		given = append(given, g)
	}
	return given, nil
}

func clientID(text string) ([]rratelimiter.Option, error) {
	if text == "" {
		return nil, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--client %q is not the ID of a client: want a UUID as listed by rrl show", text)
	}
	return []rratelimiter.Option{rratelimiter.WithClientID(id)}, nil
}

// agreed returns what a command would do as an error, unless --yes is set.
func agreed(yes bool, what string) error {
	if yes {
		return nil
	}
	return fmt.Errorf("this would %s: use --yes", what)
}

// version is set by the linker in the binaries of a release.
var version string

// installed returns the version of the program: that of the release, or what go install recorded.
func installed() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
