package grpclimit

import (
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"
)

func (g *gate) serveMessages(srv any, ss grpc.ServerStream, call Call, handler grpc.StreamHandler) error {
	s := &serverStream{ServerStream: ss, gate: g, call: call, latest: &latest{Context: ss.Context()}}
	defer s.settle()
	err := handler(srv, s)
	if r := s.refused.Load(); r != nil && errors.Is(err, r.err) {
		ss.SetTrailer(r.trailer)
	}
	return err
}

// serverStream is a stream of a server with EachMessage. One goroutine may receive from it while
// another sends.
type serverStream struct {
	grpc.ServerStream
	gate    *gate
	call    Call
	latest  *latest
	refused atomic.Pointer[refusal] // of the last message that was refused
	begun   bool                    // a message was received
}

func (s *serverStream) Context() context.Context { return s.latest }

// RecvMsg receives a message and decides it.
func (s *serverStream) RecvMsg(m any) error {
	s.settle()
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	call := s.call
	call.Message = m
	v, r := s.gate.admit(s.latest.Context, call)
	if r != nil {
		if s.begun {
			r.trailer = pushback(0) // a retry would send messages again that have passed
		}
		s.refused.Store(r)
	}
	s.begun = true
	s.latest.visit.Store(v)
	if r != nil {
		return r.err
	}
	return nil
}

func (s *serverStream) settle() {
	if v := s.latest.visit.Swap(nil); v != nil {
		s.gate.settle(s.call, v)
	}
}

// latest is the context of a stream with EachMessage. Its values include the visit of the last
// message received.
type latest struct {
	context.Context
	visit atomic.Pointer[visit]
}

func (l *latest) Value(key any) any {
	if v := l.visit.Load(); v != nil {
		return v.Value(key)
	}
	return l.Context.Value(key)
}
