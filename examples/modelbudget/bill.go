package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// bill has the costs of a request: taken before, settled after the answer. If Redis fails and the failure
// mode admits the request, the bill has taken nothing, and the estimate stands.
type bill struct {
	user            string
	request, tokens limit.Taken

	input, output int64 // tokens, estimated
	hideUsage     bool  // the client has not requested the usage in the stream
	settled       int64 // final tokens; the estimate without settle
}

type billKey struct{}

func billOf(ctx context.Context) *bill { return ctx.Value(billKey{}).(*bill) }

func (b *bill) estimate() int64 { return b.input + b.output }

// settle sets the tokens that the request has used. It works after the client has left, too.
func (b *bill) settle(ctx context.Context, tokens int64) error {
	b.settled = min(tokens, maxTokens)
	return b.tokens.Settle(ctx, b.settled)
}

// giveBack releases the request and its tokens.
func (b *bill) giveBack(ctx context.Context) error {
	return errors.Join(b.settle(ctx, 0), b.request.Settle(ctx))
}

// of is a limiter that takes into the bill of a request.
type of struct {
	*limit.Limiter
	taken *limit.Taken
}

// Take hides that of the Limiter.
func (o of) Take(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	return o.taken.Take(ctx, permits, o.Limiter)
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
		b := billOf(r.Context())
		if body, err = b.read(apis[r.URL.Path], body, c.output); err != nil {
			writeError(w, r, http.StatusBadRequest, "invalid_request_error",
				"The costs of the request are unknown: "+err.Error()+".")
			return
		}
		defer func() { // also if the answer is aborted by a panic
			log.Info("request", "user", b.user, "path", r.URL.Path, "estimated", b.estimate(), "settled", b.settled)
		}()
		next.ServeHTTP(w, withBody(r, body))
	})
}
