package grpclimit

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// clientStream is a stream of a client whose status may pause its limiter.
type clientStream struct {
	grpc.ClientStream
	gate    *gate
	limiter Limiter
}

func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	s.gate.pauseFor(s.limiter, err)
	return md, err
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.gate.pauseFor(s.limiter, err)
	return err
}
