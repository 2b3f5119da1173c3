package grpclimit

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrNotSent says that a client's interceptor has not sent a call, or a message of a stream: there was no permit within its context or
// [Wait], or Redis failed and the mode is [Closed]. The reason is wrapped: [context.DeadlineExceeded] for instance.
//
// It comes as an error that has a gRPC status: ResourceExhausted, with a RetryInfo where a later try helps; DeadlineExceeded or
// Canceled; or Unavailable. The status does not tell the reason, so that a server that hands it on tells its own clients nothing.
var ErrNotSent = errors.New("grpclimit: the call was not sent")

// UnaryClientInterceptor limits a client's unary calls: each waits for its permits of the limiter that choose gives for it, in line
// with the others, as long as its context or [Wait] allows. Where its permits cannot be had by then it fails at once, with
// an error that is [ErrNotSent]. [AtOnce] waits for nothing. The tries of a retry policy are one call, and take permits once.
//
// An answer ResourceExhausted or Unavailable that has a RetryInfo pauses the limiter's name, for all who call through this
// interceptor: no call with a limiter of that name is sent before, for at most an hour. The answer goes to its caller as it
// is. Nothing is sent again; a caller that does it waits here for the right moment. Up to 65,536 names are paused at once.
//
// Of the options, [Cost], [Skip], [Wait], [MaxWaiting], [AtOnce], [EachMessage] (of streams), [Shadow], [Report], [Policies], [OnFailure],
// [Deadline] and [OnStoreChange] apply. A server of Redis that stops to answer while calls stand in line is noticed by those in line
// only when rueidis gives the connection up; by new ones after the Deadline.
//
// It panics where choose is nil.
func UnaryClientInterceptor(choose func(context.Context, Call) (Limiter, error), opts ...Option) grpc.UnaryClientInterceptor {
	g := newGate("UnaryClientInterceptor", choose, opts, 0)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		call := outgoing(method, cc)
		call.Message = req
		name, err := g.leave(ctx, call)
		if err != nil {
			return err
		}
		err = invoker(ctx, method, req, reply, cc, opts...)
		g.heard(name, err)
		return err
	}
}

// StreamClientInterceptor limits a client's streams, each at its start, or with [EachMessage] each message that is sent. All else is
// as with [UnaryClientInterceptor].
func StreamClientInterceptor(choose func(context.Context, Call) (Limiter, error), opts ...Option) grpc.StreamClientInterceptor {
	g := newGate("StreamClientInterceptor", choose, opts, 0)
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		call := outgoing(method, cc)
		s := &sending{gate: g, call: call, desc: desc}
		if g.each {
			ctx, s.cancel = context.WithCancel(ctx)
			s.ctx = ctx
		} else {
			name, err := g.leave(ctx, call)
			if err != nil {
				return nil, err
			}
			s.name.Store(&name)
		}
		var err error
		if s.ClientStream, err = streamer(ctx, desc, cc, method, opts...); err != nil {
			s.over(err)
			return nil, err
		}
		return s, nil
	}
}

func outgoing(method string, cc *grpc.ClientConn) Call {
	call := Call{Method: method, Outgoing: true}
	if cc != nil {
		call.Target = cc.Target()
	}
	return call
}

// leave waits until a call or message may be sent. It gives the name of its limiter, "" for none.
func (g *gate) leave(ctx context.Context, call Call) (string, error) {
	_, _, o, limited := g.decide(ctx, call)
	if limited && !g.passes(&o) {
		return "", newNotSent(ctx, &o)
	}
	return o.Limiter, nil
}

// heard learns of what a server answered.
func (g *gate) heard(name string, err error) {
	if err == nil || name == "" || errors.Is(err, ErrNotSent) {
		return
	}
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			if after := info.GetRetryDelay().AsDuration(); after > 0 {
				g.pauses.Add(name, after)
			}
			return
		}
	}
}

// notSent is a call that was not sent: for its caller with the reason, for others with a status.
type notSent struct {
	reason error
	status *status.Status
}

func (e *notSent) Error() string              { return e.reason.Error() }
func (e *notSent) Unwrap() error              { return e.reason }
func (e *notSent) GRPCStatus() *status.Status { return e.status }

func newNotSent(ctx context.Context, o *Outcome) error {
	e := &notSent{status: status.FromProto(newStatus(ctx, o))}
	switch after := retryAfter(o); {
	case o.Err != nil:
		e.reason = fmt.Errorf("%w: %w", ErrNotSent, o.Err)
	case after > 0:
		e.reason = fmt.Errorf("%w: %q has no %d permits in time, but in %v", ErrNotSent, o.Limiter, o.Cost, after)
	default:
		e.reason = fmt.Errorf("%w: %q has no %d permits in time", ErrNotSent, o.Limiter, o.Cost)
	}
	return e
}
