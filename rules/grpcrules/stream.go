package grpcrules

import (
	"context"

	"google.golang.org/grpc"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/rules/internal/ruleset"
)

type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *contextStream) Context() context.Context { return s.ctx }

// handlerStream returns the stream for the handler of a call that all acquires have admitted.
func handlerStream(v *ruleset.Visit, ss grpc.ServerStream) grpc.ServerStream {
	if len(v.Admitted()) < 2 {
		return ss
	}
	s := &messageStream{ServerStream: ss, visit: v}
	for _, ctx := range v.Admitted() {
		s.starts = append(s.starts, limitOf(ctx))
	}
	return s
}

// messageStream is a stream whose messages several acquires may decide.
type messageStream struct {
	grpc.ServerStream
	visit  *ruleset.Visit
	starts []*guard.Visit[guard.GRPC, grpclimit.Outcome] // of the acquires, at the start of the stream
}

// RecvMsg receives a message. If an acquire denies it, those before it settle with a cost of 0.
func (s *messageStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	denied := false
	for i, ctx := range s.visit.Admitted() {
		own, outside := limitOf(ctx), limitOf(ruleset.Outside(ctx))
		if err == nil || own == outside || own == s.starts[i] {
			continue // it has taken nothing, or only for the start of the stream
		}
		denied = true
		_ = own.Settle(0) // the limiters of package ruleset support it
	}
	s.visit.SetDenied(denied)
	return err
}

// limitOf returns the innermost visit of grpclimit around a context, nil for none.
func limitOf(ctx context.Context) *guard.Visit[guard.GRPC, grpclimit.Outcome] {
	return guard.VisitOf[guard.GRPC, grpclimit.Outcome](ctx)
}
