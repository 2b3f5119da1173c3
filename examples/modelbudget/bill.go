package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/rratelimiter/rratelimiter/httplimit"
)

// bill has the costs of a request: estimated before, settled after the answer.
type bill struct {
	input, output int64 // tokens, estimated
	hideUsage     bool  // the client has not requested the usage in the stream

	// request is the context between the two limits, by which Settle finds the limit of requests. In the
	// context of the proxy it finds the inner limit, of tokens.
	request context.Context

	settled int64 // final tokens; the estimate without settle
}

type billKey struct{}

func billOf(ctx context.Context) *bill {
	b, _ := ctx.Value(billKey{}).(*bill)
	return b
}

func (b *bill) estimate() int64 { return b.input + b.output }

// settle sets the tokens that the request has used. ctx is a context of the proxy.
func (b *bill) settle(ctx context.Context, tokens int64) error {
	b.settled = min(tokens, maxTokens)
	return httplimit.Settle(ctx, b.settled)
}

// giveRequestBack releases the permit of the request.
func (b *bill) giveRequestBack() error { return httplimit.Settle(b.request, 0) }

// giveBack releases the request and its tokens. ctx is a context of the proxy.
func giveBack(ctx context.Context) error {
	b := billOf(ctx)
	if b == nil { // no tokens were taken
		return httplimit.Settle(ctx, 0)
	}
	return errors.Join(b.settle(ctx, 0), b.giveRequestBack())
}

// billed reads and estimates a request, and logs its costs.
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
			writeError(w, r, http.StatusBadRequest, "invalid_request_error",
				"The costs of the request are unknown: "+err.Error()+".")
			return
		}
		b.request = r.Context()
		user, _ := byUser(r)
		defer func() { // also if the answer is aborted by a panic
			log.Info("request", "user", user, "path", r.URL.Path, "estimated", b.estimate(), "settled", b.settled)
		}()
		next.ServeHTTP(w, withBody(r.WithContext(context.WithValue(r.Context(), billKey{}, b)), body))
	})
}
