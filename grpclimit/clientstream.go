package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// clientStream is a stream of a client. One goroutine may send on it while another receives.
type clientStream struct {
	grpc.ClientStream
	gate    *gate
	call    Call
	desc    *grpc.StreamDesc
	limiter atomic.Pointer[guard.Limiter] // that decided last

	// Set with EachMessage.
	ctx    context.Context // of the stream
	cancel context.CancelFunc
	ended  atomic.Bool
}

// SendMsg sends a message. With EachMessage, it waits for the message's permits first.
func (s *clientStream) SendMsg(m any) error {
	if s.cancel == nil {
		return s.ClientStream.SendMsg(m)
	}
	call := s.call
	call.Message = m
	limiter, err := s.gate.acquire(s.ctx, call)
	switch {
	case err != nil && s.ended.Load():
		return io.EOF // the stream ended while the message waited; RecvMsg returns the status
	case err != nil:
		s.cancel() // a caller that gets an error from SendMsg need not call RecvMsg
		return err
	}
	if limiter != nil { // a message without a limiter keeps the last one
		s.limiter.Store(&limiter)
	}
	if err = s.ClientStream.SendMsg(m); err != nil && !errors.Is(err, io.EOF) {
		s.finish(err)
	}
	return err
}

func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err != nil {
		s.finish(err)
	}
	return md, err
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || !s.desc.ServerStreams {
		s.finish(err)
	}
	return err
}

// finish records the end of the stream, and its error.
func (s *clientStream) finish(err error) {
	if limiter := s.limiter.Load(); limiter != nil {
		s.gate.pauseFor(*limiter, err)
	}
	if s.cancel != nil {
		s.ended.Store(true)
		s.cancel()
	}
}
