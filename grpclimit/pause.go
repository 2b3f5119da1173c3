package grpclimit

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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

// pauseFor pauses a limiter if the status of a server asks for it.
func (g *gate) pauseFor(limiter Limiter, err error) {
	if err == nil || limiter == nil || errors.Is(err, ErrNotSent) {
		return
	}
	s, ok := status.FromError(err)
	if !ok {
		return
	}
	longest := time.Duration(0)
	for _, asks := range g.pauseOn {
		if d, refused := asks(s); refused {
			longest = max(longest, d)
		}
	}
	g.Pause(limiter, longest)
}
