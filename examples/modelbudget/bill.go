package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// bill is what a request costs: estimated before, settled when its answer has been read.
type bill struct {
	input, output int64 // tokens, estimated
	hideUsage     bool  // the stream will tell a usage that the client has not asked for

	// request is the context between the two limits, by which Settle finds the limit of requests. That of the proxy finds the one
	// of tokens, which is the innermost.
	request context.Context

	settled int64 // tokens in the end: as estimated, unless settle says otherwise
}

type billKey struct{}

func billOf(ctx context.Context) *bill {
	b, _ := ctx.Value(billKey{}).(*bill)
	return b
}

func (b *bill) estimate() int64 { return b.input + b.output }

// settle says what the request has used. The context is one of the proxy.
func (b *bill) settle(ctx context.Context, tokens int64) error {
	b.settled = min(tokens, mostTokens)
	return httplimit.Settle(ctx, b.settled)
}

// giveRequestBack says that the request is not to be counted.
func (b *bill) giveRequestBack() error { return httplimit.Settle(b.request, 0) }

// giveBack says that a request has cost nothing at all. The context is one of the proxy.
func giveBack(ctx context.Context) error {
	b := billOf(ctx)
	if b == nil { // no tokens were taken for it
		return httplimit.Settle(ctx, 0)
	}
	return errors.Join(b.settle(ctx, 0), b.giveRequestBack())
}

// billed reads and estimates a request, and logs what it has cost.
func billed(c config, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, c.maxBody))
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			writeError(w, r, http.StatusRequestEntityTooLarge, "request_too_large", "The request is too large.")
			return
		case err != nil:
			writeError(w, r, http.StatusRequestTimeout, "timeout_error", "The request did not arrive.")
			return
		}
		b, body, err := newBill(apis[r.URL.Path], body, c.output)
		if err != nil {
			writeError(w, r, http.StatusBadRequest, "invalid_request_error", "What the request costs cannot be told: "+err.Error()+".")
			return
		}
		b.request = r.Context()
		user, _ := byUser(r)
		defer func() { // also where the answer breaks off, which is a panic
			log.Info("request", "user", user, "path", r.URL.Path, "estimated", b.estimate(), "settled", b.settled)
		}()
		next.ServeHTTP(w, withBody(r.WithContext(context.WithValue(r.Context(), billKey{}, b)), body))
	})
}
