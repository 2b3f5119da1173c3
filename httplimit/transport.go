package httplimit

import (
	"errors"
	"io"
	"net/http"

	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
)

// ErrNotSent is returned when a [Transport] does not send a request: no permit was free within its
// context or [Wait], or Redis failed and the mode is [limit.Closed]. It wraps the reason, for instance
// [context.DeadlineExceeded].
var ErrNotSent = errors.New("httplimit: the request was not sent")

// Transport limits outgoing calls: each waits for its permits from the limiter that choose returns.
// Calls wait in order, as long as their context or [Wait] allows. A call fails with [ErrNotSent] as
// soon as it is known that its permits will not be free in time. Each redirect is a call of its own.
// A nil base is [http.DefaultTransport].
//
// A response 429 or 503 with a Retry-After pauses the limiter's name for all callers of this
// Transport; [PauseOn] chooses other responses. No call with a limiter of that name is sent before the
// pause ends, after at most a minute, or Most of the limiter's [limit.Pause]. The caller gets the
// response unchanged. The Transport does not retry. A retry of the caller waits until the pause ends.
// Up to 65,536 names are paused at once.
//
// If the limiter has a [limit.Pause], the Transport begins it in the background, so that all processes
// that share the limiter pause. [limit.Limiter.Pause] with 0 ends it. If Redis fails, this Transport
// pauses alone.
//
// A permit of a [limit.InFlight] is held until the body of the response is closed or at its end, or the
// request has failed. [OnSettleError] gets the errors of its return.
//
// These options apply: [Cost], [Skip], [Wait], [MaxWaiting], [PauseOn], [FollowQuota], [Shadow], [Report],
// [OnFailure], [Deadline] and [OnRedisChange]. If Redis stops answering while calls wait for
// permits, OnFailure decides them within three Deadlines, and new calls after one.
// CloseIdleConnections is that of base, if it has one.
//
// It panics if choose is nil.
func Transport(base http.RoundTripper, choose func(*http.Request) (Limiter, error), opts ...Option) http.RoundTripper {
	if choose == nil {
		panic("httplimit: Transport: choose is nil: pass All, Each or a function that returns a Limiter")
	}
	if base == nil {
		base = http.DefaultTransport
	}
	s := newSettings(choose, append([]Option{PauseOn(RetryAfter())}, opts...))
	return &transport{s, gate.NewOutgoing("httplimit: Transport", s.Options), base}
}

type transport struct {
	*settings
	gate *gate.Outgoing[*http.Request]
	base http.RoundTripper
}

// RoundTrip waits for the permits of a request, and sends it.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	v := t.gate.Admit(r)
	if v == nil {
		return t.base.RoundTrip(r)
	}
	if !v.Answer.Passes() {
		if r.Body != nil {
			_ = r.Body.Close() // required of a RoundTripper
		}
		return nil, v.NotSent(ErrNotSent)
	}
	t.gate.Granted(v)
	open := false // the body of the response, whose end returns the place
	defer func() {
		if !open { // also if a callback panics
			v.Return()
		}
	}()
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	gate.PauseFor(t.gate, v, resp, t.pauseOn)
	t.gate.Follow(v, resp.Header)
	if v.Answer.Receipt.Hold != nil {
		resp.Body = untilEnd(resp.Body, v.Return)
		open = true
	}
	return resp, nil
}

// untilEnd returns the body of a response with a function that is called at its end, or when it is closed.
func untilEnd(body io.ReadCloser, end func()) io.ReadCloser {
	if body == nil || body == http.NoBody {
		end()
		return body
	}
	wrapped := &endingBody{body, end}
	if w, ok := body.(io.Writer); ok { // of 101 Switching Protocols
		return upgradedBody{wrapped, w}
	}
	return wrapped
}

type endingBody struct {
	io.ReadCloser
	end func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

type upgradedBody struct {
	*endingBody
	io.Writer
}

// CloseWrite ends one direction of a connection, as [http.Transport]'s own body does.
func (b upgradedBody) CloseWrite() error {
	if w, ok := b.Writer.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return http.ErrNotSupported
}

// CloseIdleConnections closes the idle connections of the base RoundTripper, for
// [http.Client.CloseIdleConnections].
func (t *transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
