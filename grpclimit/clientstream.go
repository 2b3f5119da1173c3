package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// sending is a stream of a client. As any stream it may be sent on by one goroutine while another receives.
type sending struct {
	grpc.ClientStream
	gate *gate
	call Call
	desc *grpc.StreamDesc
	name atomic.Pointer[string] // of the limiter that was used last

	// Where each message is limited:
	ctx    context.Context // of the stream
	cancel context.CancelFunc
	ended  atomic.Bool
}

// SendMsg sends a message, where each is limited once it may go.
func (s *sending) SendMsg(m any) error {
	if s.cancel == nil {
		return s.ClientStream.SendMsg(m)
	}
	call := s.call
	call.Message = m
	name, err := s.gate.leave(s.ctx, call)
	switch {
	case err != nil && s.ended.Load():
		return io.EOF // it ended while the message waited; RecvMsg says how
	case err != nil:
		s.cancel() // who gets an error here need not receive any more
		return err
	}
	if name != "" { // what nothing limited has no say in what pauses
		s.name.Store(&name)
	}
	if err = s.ClientStream.SendMsg(m); err != nil && !errors.Is(err, io.EOF) {
		s.over(err)
	}
	return err
}

// Header waits for the header of the answer.
func (s *sending) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	if err != nil {
		s.over(err)
	}
	return md, err
}

// RecvMsg receives a message.
func (s *sending) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || !s.desc.ServerStreams {
		s.over(err)
	}
	return err
}

// over notes that the stream has ended, and how.
func (s *sending) over(err error) {
	if name := s.name.Load(); name != nil {
		s.gate.heard(*name, err)
	}
	if s.cancel != nil {
		s.ended.Store(true)
		s.cancel()
	}
}
