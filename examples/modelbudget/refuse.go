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

// refuse answers a denied request in the format of the API, so that its SDKs understand it. RateLimit
// headers and Retry-After are already set.
func refuse(w http.ResponseWriter, r *http.Request) {
	o, _ := httplimit.FromContext(r.Context())
	// A request without tokens gives its permit back, so that retries do not use up the requests.
	_ = billOf(r.Context()).giveBack(r.Context()) // otherwise the permit returns in time
	switch {
	case o.Result != httplimit.Rejected:
		writeError(w, r, http.StatusServiceUnavailable, "overloaded_error", "Requests cannot be admitted at the moment.")
	case errors.Is(o.Err, rratelimiter.ErrPermitsExceedRate):
		w.Header().Set("X-Should-Retry", "false") // otherwise SDKs retry
		writeError(w, r, http.StatusTooManyRequests, "rate_limit_error",
			fmt.Sprintf("The request may use %d tokens, more than the budget of a minute. Send less, or bound the answer by "+
				"max_tokens.", o.Cost))
	default:
		writeError(w, r, http.StatusTooManyRequests, "rate_limit_error",
			fmt.Sprintf("The request is over the limit of %d %s per minute. Retry in %v.",
				o.Decision.Limit, o.Violated[0], o.Decision.RetryAfter.Round(time.Millisecond)))
	}
}

// writeError writes an error in the format of the requested API.
func writeError(w http.ResponseWriter, r *http.Request, status int, kind, message string) {
	body := map[string]any{"error": map[string]string{"type": kind, "message": message}}
	if apis[r.URL.Path].anthropic {
		body["type"] = "error"
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // impossible: the values are texts
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}
