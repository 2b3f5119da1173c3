package grpclimit

import (
	"context"
	"errors"
	"net/http"
	"net/textproto"
	"slices"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
)

// ErrNotSent is returned when a client's interceptor does not send a call. Either no permit was
// free within its context or [Wait], or Redis failed and the mode is [limit.Closed]. The error wraps the
// reason, for instance [context.DeadlineExceeded].
//
// The error has a gRPC status: ResourceExhausted, with a RetryInfo if a retry helps;
// DeadlineExceeded or Canceled; or Unavailable. The status does not include the reason, so a server
// may pass it on to its own clients.
var ErrNotSent = errors.New("grpclimit: the call was not sent")

// UnaryClientInterceptor limits a client's unary calls: each waits for its permits from the limiter
// that choose returns. Calls wait in order, as long as their context or [Wait] allows. If its
// permits are not free by then, a call fails at once with [ErrNotSent]. All attempts of a retry
// policy are one call, and take permits once.
//
// A status ResourceExhausted or Unavailable with a RetryInfo pauses the limiter's name, as a response pauses
// it in httplimit.Transport; [PauseOn] chooses other statuses. The caller gets the status unchanged.
//
// A permit of a [limit.InFlight] is held until the call has ended, that of a stream until its end was
// received or its context has ended.
//
// These options apply: [Cost], [Skip], [Wait], [MaxWaiting], [PauseOn], [FollowQuota], [Shadow], [Report],
// [OnFailure], [Deadline] and [OnRedisChange]. If Redis stops answering while calls wait for permits,
// OnFailure decides them within three Deadlines, and new calls after one.
//
// It panics if choose is nil.
func UnaryClientInterceptor(choose func(context.Context, Call) (Limiter, error),
	opts ...Option) grpc.UnaryClientInterceptor {
	g := newClient("UnaryClientInterceptor", choose, opts)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		c := outgoing(ctx, method, req, cc)
		v, err := g.acquire(c)
		if err != nil {
			return err
		}
		defer v.Return()
		var header, trailer metadata.MD
		if g.Follows {
			opts = append(slices.Clip(opts), grpc.Header(&header), grpc.Trailer(&trailer))
			g.Granted(v)
		}
		err = invoker(ctx, method, req, reply, cc, opts...)
		g.pauseFor(v, err)
		g.follow(v, header, trailer)
		return err
	}
}

// StreamClientInterceptor limits a client's streams, each at its start. Otherwise it is like
// [UnaryClientInterceptor].
func StreamClientInterceptor(choose func(context.Context, Call) (Limiter, error),
	opts ...Option) grpc.StreamClientInterceptor {
	g := newClient("StreamClientInterceptor", choose, opts)
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer,
		opts ...grpc.CallOption) (grpc.ClientStream, error) {
		c := outgoing(ctx, method, nil, cc)
		v, err := g.acquire(c)
		if err != nil {
			return nil, err
		}
		opened := false
		defer func() {
			if !opened { // also if a callback panics
				v.Return()
			}
		}()
		if v != nil && v.Answer.Receipt.Hold != nil {
			opts = append(slices.Clip(opts), grpc.OnFinish(func(error) { v.Return() }))
		}
		s, err := streamer(ctx, desc, cc, method, opts...)
		if err != nil {
			g.pauseFor(v, err)
			return nil, err
		}
		opened = true
		g.Granted(v)
		return &clientStream{ClientStream: s, gate: g, visit: v}, nil
	}
}

// client is what the interceptors of a client have in common.
type client struct {
	*gate.Outgoing[call]
	pauseOn []func(*status.Status) (time.Duration, bool)
}

func newClient(name string, choose func(context.Context, Call) (Limiter, error), opts []Option) *client {
	at := "grpclimit: " + name
	s := newSettings(at, choose, append([]Option{PauseOn(RetryInfo())}, opts...))
	return &client{gate.NewOutgoing(at, s.Options), s.pauseOn}
}

// clientStream is a stream of a client whose status may pause its limiter. Header returns no status.
type clientStream struct {
	grpc.ClientStream
	gate    *client
	visit   *visit // nil if nothing limits the stream
	follows sync.Once
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.gate.pauseFor(s.visit, err)
	if s.gate.Follows {
		s.follows.Do(func() {
			header, _ := s.Header() // it has arrived, or nil
			if err != nil {
				header = metadata.Join(header, s.Trailer())
			}
			s.gate.follow(s.visit, header)
		})
	}
	return err
}

// FollowQuota has a client's interceptor follow the provider's own count, as httplimit.FollowQuota does.
// It reads the metadata of a call's header and trailer, such as x-ratelimit-remaining of Envoy.
func FollowQuota(kinds ...string) Option { return common(gate.FollowQuota(kinds)) }

// follow drains the limiter of a call to what metadata says is left of the quota.
func (g *client) follow(v *visit, all ...metadata.MD) {
	if !g.Follows {
		return
	}
	h := make(http.Header)
	for name, values := range metadata.Join(all...) {
		h[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	g.Follow(v, h)
}

func outgoing(ctx context.Context, method string, message any, cc *grpc.ClientConn) call {
	c := call{In: ctx, Call: Call{Method: method, Message: message, Outgoing: true}}
	if cc != nil {
		c.Call.Target = cc.Target()
	}
	return c
}

// acquire waits until a call may be sent. It returns nil if nothing limits the call.
func (g *client) acquire(c call) (*visit, error) {
	v := g.Admit(c)
	if v != nil && !v.Answer.Passes() {
		return nil, &notSentError{v.NotSent(ErrNotSent), status.FromProto(newStatus(v, v.Answer.RetryAfter()))}
	}
	return v, nil
}

// notSentError is the error of a call that was not sent: with the reason for its caller, and a status
// for others.
type notSentError struct {
	reason error
	status *status.Status
}

func (e *notSentError) Error() string              { return e.reason.Error() }
func (e *notSentError) Unwrap() error              { return e.reason }
func (e *notSentError) GRPCStatus() *status.Status { return e.status }

// PauseOn sets which statuses pause a client's interceptor: each function returns how long a status asks
// clients to pause, and whether it is a refusal. The longest time counts. The default is [RetryInfo].
//
// A refusal without a time is 0 and true. It pauses nothing by itself. A function of yours can wrap
// RetryInfo: it sees each status that is not OK, can log and count refusals, and choose a time for those
// without one.
func PauseOn(asks ...func(*status.Status) (time.Duration, bool)) Option {
	return option(func(s *settings) { s.pauseOn = asks })
}

// RetryInfo reads google.rpc.RetryInfo of statuses with one of the codes, ResourceExhausted and
// Unavailable without any. It is for [PauseOn]. A status ResourceExhausted is a refusal without a
// RetryInfo too.
func RetryInfo(of ...codes.Code) func(*status.Status) (time.Duration, bool) {
	if len(of) == 0 {
		of = []codes.Code{codes.ResourceExhausted, codes.Unavailable}
	}
	return func(s *status.Status) (time.Duration, bool) {
		if !slices.Contains(of, s.Code()) {
			return 0, false
		}
		for _, d := range s.Details() {
			if info, ok := d.(*errdetails.RetryInfo); ok {
				return max(0, info.GetRetryDelay().AsDuration()), true
			}
		}
		return 0, s.Code() == codes.ResourceExhausted
	}
}

// pauseFor pauses the limiter of a call if the status of the server asks for it.
func (g *client) pauseFor(v *visit, err error) {
	if err == nil || errors.Is(err, ErrNotSent) {
		return
	}
	if s, ok := status.FromError(err); ok {
		gate.PauseFor(g.Outgoing, v, s, g.pauseOn)
	}
}
