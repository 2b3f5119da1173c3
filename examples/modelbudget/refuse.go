package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
)

// refuse answers a request that one of the limits has refused, as the API would, so that its SDKs understand it. RateLimit headers
// and Retry-After are there already.
func refuse(w http.ResponseWriter, r *http.Request) {
	o, _ := httplimit.FromContext(r.Context())
	if b := billOf(r.Context()); b != nil {
		// The limit of tokens, or Redis, has refused what had been counted as a request: users who try again should not run out of
		// requests by it. It takes effect once the limit of requests, which is outside, gets its answer.
		_ = b.giveRequestBack() // a bucket always can be given back
		b.settled = 0
	}
	switch {
	case o.Result != httplimit.Rejected:
		writeError(w, r, http.StatusServiceUnavailable, "overloaded_error", "Requests cannot be admitted at the moment.")
	case errors.Is(o.Err, rratelimiter.ErrPermitsExceedRate):
		w.Header().Set("X-Should-Retry", "false") // SDKs try again else
		writeError(w, r, http.StatusTooManyRequests, "rate_limit_error",
			fmt.Sprintf("The request may use %d tokens, more than the budget of a minute. Ask for less, or bound the answer by max_tokens.", o.Cost))
	default:
		writeError(w, r, http.StatusTooManyRequests, "rate_limit_error",
			fmt.Sprintf("The request is over the limit of %s a minute, which is %d. Try again in %v.", o.Violated()[0], o.Decision.Limit, o.Decision.RetryAfter.Round(time.Millisecond)))
	}
}

// writeError writes an error as the API that was asked would.
func writeError(w http.ResponseWriter, r *http.Request, status int, kind, message string) {
	body := map[string]any{"error": map[string]string{"type": kind, "message": message}}
	if apis[r.URL.Path].anthropic {
		body["type"] = "error"
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // texts always have a form
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that has gone needs no answer
}
