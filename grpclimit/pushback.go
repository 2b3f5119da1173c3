package grpclimit

import (
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"
)

// pushbackKey is the trailer by which a server tells retry policies of clients when to try again, in milliseconds, or by a number
// below 0 that they shall not. A RetryInfo is nothing to them.
const pushbackKey = "grpc-retry-pushback-ms"

// longestPushback is the longest wait that is put on retry policies, whose callers hear nothing meanwhile. A wait that is
// longer is theirs to choose, by the RetryInfo.
const longestPushback = time.Minute

// pushback is the trailer of a refusal after which a try helps so much later, or never for 0.
func pushback(after time.Duration) metadata.MD {
	text := "-1"
	if after > 0 && after <= longestPushback {
		text = strconv.FormatInt(int64((after+time.Millisecond-1)/time.Millisecond), 10)
	}
	return metadata.MD{pushbackKey: {text}}
}
