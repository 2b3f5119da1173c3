package grpclimit

import (
	"context"
	"errors"
	"sync/atomic"

	"google.golang.org/grpc"
)

// serveMessages serves a stream of which each message is limited.
func (g *gate) serveMessages(srv any, ss grpc.ServerStream, call Call, handler grpc.StreamHandler) error {
	s := &receiving{ServerStream: ss, gate: g, call: call, latest: &latest{Context: ss.Context()}}
	defer s.settle()
	err := handler(srv, s)
	if r := s.refused.Load(); r != nil && errors.Is(err, r.err) {
		ss.SetTrailer(r.trailer)
	}
	return err
}

// receiving is a stream of a server of which each message that is received is limited. As any stream it may be received from by
// one goroutine while another sends, or ends.
type receiving struct {
	grpc.ServerStream
	gate    *gate
	call    Call
	latest  *latest
	refused atomic.Pointer[refusal] // the last one
	begun   bool                    // a message was received
}

func (s *receiving) Context() context.Context { return s.latest }

// RecvMsg receives a message, and decides it.
func (s *receiving) RecvMsg(m any) error {
	s.settle()
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	call := s.call
	call.Message = m
	v, r := s.gate.admit(s.latest.Context, call)
	if r != nil {
		if s.begun {
			r.trailer = pushback(0) // another try would send again what has passed
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

// settle settles for the message that was received last.
func (s *receiving) settle() {
	if v := s.latest.visit.Swap(nil); v != nil {
		s.gate.settle(s.call, v)
	}
}

// latest is the context of a stream of which each message is limited. It finds the visit of the message that was received last.
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
