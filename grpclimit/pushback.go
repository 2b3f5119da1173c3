package grpclimit

import (
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// pushbackKey is the trailer with which a server delays the retries of a client: in
// milliseconds, or below 0 for never. They ignore a RetryInfo.
const pushbackKey = "grpc-retry-pushback-ms"

// longestPushback is the longest wait that a server asks of a retry policy, whose caller gets no
// answer meanwhile. For a longer wait the retries stop, and the caller decides by the RetryInfo. The
// random part of Spread does not count, so that equal refusals have equal results.
const longestPushback = time.Minute

// pushback returns the trailer of a refusal after which a retry helps, or never if after is 0.
func pushback(after time.Duration) metadata.MD {
	text := "-1"
	if after > 0 {
		text = strconv.FormatInt(guard.RoundUp(after, time.Millisecond), 10)
	}
	return metadata.MD{pushbackKey: {text}}
}
