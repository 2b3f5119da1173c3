// Modelbudget is a proxy that keeps the users of a language-model API within requests and tokens a minute. What a request will use is
// estimated and taken before it goes on; what it has used, as the answer says, is settled afterwards, also of streams and of clients
// that leave in the middle.
//
//	go run ./examples/modelbudget      # on :8090, on a Redis in memory, in front of a model that repeats what it is told
//	curl localhost:8090/v1/chat/completions -iH 'Authorization: Bearer sk-alice' -d '{"messages":[{"role":"user","content":"Hello, model!"}]}'
//
// newHandler in budget.go is where to begin to read.
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

const usageText = `modelbudget keeps the users of a language-model API within requests and tokens a minute.

It passes on what OpenAI's API has under /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings and /v1/models and
Anthropic's under /v1/messages, and nothing else. A user shows a key of -users, as Authorization: Bearer or X-Api-Key; the API
gets the one in UPSTREAM_API_KEY. Budgets are counted in the Redis that REDIS_URL names, or in one in memory.

A request takes, before it goes on, the tokens of its body (a token for four bytes) and of the longest answer that it allows;
once it is answered it is settled for what the API says it has used. What it used beyond is owed, and comes back first.
RateLimit headers tell users what is left.

`

// config is what the flags and the environment say.
type config struct {
	listen       string
	upstream     *url.URL // nil: the model that is built in
	key          string   // for the upstream
	users        users
	requests     int64 // a minute
	tokens       int64 // a minute
	output       int64 // tokens of an answer, where a request sets no bound
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
	f.Func("upstream", "the `URL` of the API, as https://api.openai.com (default a model that repeats what it is told)", func(text string) (err error) {
		if c.upstream, err = url.Parse(text); err == nil && (c.upstream.Scheme != "http" && c.upstream.Scheme != "https" || c.upstream.Host == "") {
			err = fmt.Errorf("%q is no URL as https://host", text)
		}
		return err
	})
	f.Func("users", "a `file` with a name and a key in each line (default alice with sk-alice and bob with sk-bob, for the built-in model alone)", func(name string) error {
		text, err := os.ReadFile(name)
		if err == nil {
			c.users, err = parseUsers(string(text))
		}
		return err
	})
	f.Int64Var(&c.requests, "requests", 60, "`requests` a minute of one user")
	f.Int64Var(&c.tokens, "tokens", 20000, "`tokens` a minute of one user")
	f.Int64Var(&c.output, "output", 1024, "`tokens` that an answer is estimated at where the request sets no bound")
	f.Int64Var(&c.maxBody, "max-body", 8<<20, "`bytes` of a request's body; larger ones are refused with 413")
	f.Func("redis-down", "while Redis fails requests pass (open), do not (closed), or have a `share` of the budgets in this process (default closed)", func(text string) (err error) {
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
		return c, fmt.Errorf("%q is no flag; see modelbudget -help", f.Arg(0))
	case c.requests < 1 || c.tokens < 1 || c.output < 1 || c.maxBody < 1 || c.redisTimeout <= 0 || c.clientTimeout <= 0:
		return c, fmt.Errorf("-requests %d, -tokens %d, -output %d, -max-body %d, -redis-timeout %v and -client-timeout %v, want all above 0",
			c.requests, c.tokens, c.output, c.maxBody, c.redisTimeout, c.clientTimeout)
	case c.users == nil && c.upstream != nil:
		return c, errors.New("-upstream needs -users: everybody can read the built-in keys")
	case c.users == nil:
		c.users, _ = parseUsers("alice sk-alice\nbob sk-bob")
	}
	return c, nil
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
		return 0, fmt.Errorf("%q is neither open nor closed nor a share above 0, at most 1", text)
	}
	return httplimit.Local(share), nil
}
