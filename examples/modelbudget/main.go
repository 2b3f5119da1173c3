// Modelbudget is a proxy that limits requests and tokens per minute of the users of a language-model API.
// It takes an estimate of the tokens before a request, and settles for the usage in the answer, also for
// streams and for clients that disconnect.
//
//	go run ./examples/modelbudget    # on :8090, with an in-memory Redis and a model that repeats its input
//	curl localhost:8090/v1/chat/completions -H 'Authorization: Bearer sk-alice' \
//		-d '{"messages":[{"role":"user","content":"Hello, model!"}]}'
//
// Start to read at newHandler in budget.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "modelbudget:", err)
		os.Exit(1)
	}
}

const usageText = `modelbudget limits requests and tokens per minute of the users of a language-model API.

It forwards /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings and /v1/models of OpenAI's API and
/v1/messages of Anthropic's, and no other paths. A user sends a key of -users as Authorization: Bearer or X-Api-Key;
the API gets the key in UPSTREAM_API_KEY. Budgets are in the Redis of REDIS_URL, or in an in-memory one.

A request first takes the tokens of its body (a token per four bytes) and of the longest answer that it allows. After
the answer it is settled for the usage that the API reports. Tokens beyond the budget are owed and have to return
first. RateLimit headers report the remaining budget.

`

// config has the values of the flags and the environment.
type config struct {
	listen       string
	upstream     *url.URL // nil: the built-in model
	key          string   // for the upstream
	users        users
	requests     int64 // per minute
	tokens       int64 // per minute
	output       int64 // tokens of an answer without a bound
	maxBody      int64
	mode         httplimit.FailureMode
	redisTimeout time.Duration

	clientTimeout time.Duration
}

func parseConfig(args []string, out io.Writer) (config, error) {
	c := config{key: os.Getenv("UPSTREAM_API_KEY"), mode: httplimit.Closed}
	f := flag.NewFlagSet("modelbudget", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() { _, _ = fmt.Fprint(out, usageText); f.PrintDefaults() }
	f.StringVar(&c.listen, "listen", "localhost:8090", "serve users on this `address`")
	f.Func("upstream", "the `URL` of the API, such as https://api.openai.com (default a model that repeats its input)",
		func(text string) (err error) {
			c.upstream, err = parseUpstream(text)
			return err
		})
	f.Func("users", "a `file` with a name and a key per line (default alice with sk-alice and bob with sk-bob, only for the "+
		"built-in model)", func(name string) error {
		text, err := os.ReadFile(name)
		if err == nil {
			c.users, err = parseUsers(string(text))
		}
		return err
	})
	f.Int64Var(&c.requests, "requests", 60, "`requests` per minute of one user")
	f.Int64Var(&c.tokens, "tokens", 20000, "`tokens` per minute of one user")
	f.Int64Var(&c.output, "output", 1024, "estimated `tokens` of an answer if the request sets no bound")
	f.Int64Var(&c.maxBody, "max-body", 8<<20, "`bytes` of a request's body; larger ones are rejected with 413")
	f.Func("redis-down", "while Redis fails, requests pass (open), fail (closed), or have a `share` of the budgets in this "+
		"process (default closed)", func(text string) (err error) {
		c.mode, err = parseMode(text)
		return err
	})
	f.DurationVar(&c.redisTimeout, "redis-timeout", httplimit.DefaultDeadline, "how long Redis may take for one call")
	f.DurationVar(&c.clientTimeout, "client-timeout", 30*time.Second, "how long a client may take to send a request")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("%q is not a flag; see modelbudget -help", f.Arg(0))
	case c.requests < 1 || c.tokens < 1 || c.output < 1 || c.maxBody < 1 || c.redisTimeout <= 0 || c.clientTimeout <= 0:
		return c, fmt.Errorf("-requests %d, -tokens %d, -output %d, -max-body %d, -redis-timeout %v and -client-timeout %v, "+
			"want all above 0",
			c.requests, c.tokens, c.output, c.maxBody, c.redisTimeout, c.clientTimeout)
	case c.users == nil && c.upstream != nil:
		return c, errors.New("-upstream needs -users: the built-in keys are public")
	case c.users == nil:
		c.users, _ = parseUsers("alice sk-alice\nbob sk-bob")
	}
	return c, nil
}

func parseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not a URL like https://host", text)
	}
	return u, nil
}

func parseMode(text string) (httplimit.FailureMode, error) {
	switch text {
	case "open":
		return httplimit.Open, nil
	case "closed":
		return httplimit.Closed, nil
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share > 0 && share <= 1) {
		return 0, fmt.Errorf("%q is not open, closed or a share above 0 and at most 1", text)
	}
	return httplimit.Local(share), nil
}
