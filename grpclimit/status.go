package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Messages of statuses. They do not include errors. An invalid call gets the metadata that it lacks.
const (
	overLimit = "the call is over its limit"
	denied    = "the call is denied"
	reduced   = "calls cannot be admitted at the moment"
	ended     = "the call ended before it was admitted"
	lacking   = "the call lacks what its limit needs"
)

// denials are the codes of denials, by their status of HTTP, 0 for the default.
var denials = map[int]codes.Code{
	0: codes.ResourceExhausted, http.StatusTooManyRequests: codes.ResourceExhausted,
	http.StatusUnauthorized: codes.Unauthenticated, http.StatusForbidden: codes.PermissionDenied,
	http.StatusNotFound: codes.NotFound, http.StatusServiceUnavailable: codes.Unavailable,
}

// ends are the statuses of HTTP for the codes of calls, as google.rpc.Code maps them.
var ends = [...]int{200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401}

// endOf returns the status of HTTP for the error with which the handler of a call has ended. An error of a
// context has a code of its own, as in grpc-go.
func endOf(err error) int {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	if code := s.Code(); int(code) < len(ends) {
		return ends[code]
	}
	return http.StatusInternalServerError
}

// refusal is the status and trailer of a refused call to a server.
type refusal struct {
	err     error
	trailer metadata.MD
}

// newStatus returns the status of a refused call, of a server or a client. after is the time to
// retry, 0 for never.
func newStatus(v *visit, after time.Duration) *spb.Status {
	code, message := codes.Unavailable, reduced
	switch {
	case v.Answer.Result == limit.Rejected:
		if code, message = denials[v.Settings.Denied], overLimit; code != codes.ResourceExhausted {
			message = denied
		}
	case v.Answer.Result == limit.Invalid:
		code, message = codes.InvalidArgument, lacking
		if field := identity.LackOf(v.Answer.Err); field != "" {
			message += ": one value of the " + field
		}
	case v.Answer.Result == limit.Canceled && errors.Is(v.Request.In.Err(), context.Canceled):
		code, message = codes.Canceled, ended
	case v.Answer.Result == limit.Canceled:
		code, message = codes.DeadlineExceeded, ended
	}
	s := &spb.Status{Code: int32(code), Message: message}
	if after > 0 {
		s.Details = detail(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	return s
}

func newRefusal(v *visit) *refusal {
	exact := v.Answer.RetryAfter()
	after := v.Settings.Spread.Add(exact)
	s := newStatus(v, after)
	if s.GetCode() == int32(codes.ResourceExhausted) {
		s.Details = append(s.Details, quotaFailure(v)...)
	}
	trailer := pushback(after)
	if exact > longestPushback {
		trailer = pushback(0)
	}
	return &refusal{status.ErrorProto(s), trailer}
}

func quotaFailure(v *visit) []*anypb.Any {
	f := new(errdetails.QuotaFailure)
	for _, i := range v.Description.Denying(&v.Answer.Outcome) {
		of := v.Description.Policy(i)
		quota := v.Answer.Decision.Limit
		if i < len(v.Answer.Each) {
			quota = v.Answer.Each[i].Limit
		}
		quota = cmp.Or(quota, of.Quota)
		violation := &errdetails.QuotaFailure_Violation{
			QuotaMetric: "permits", QuotaId: of.Shown, QuotaValue: quota,
		}
		limit := strconv.Quote(of.Shown)
		if quota > 0 {
			limit += fmt.Sprintf(" of %d", quota)
		}
		violation.Description = fmt.Sprintf("the limit %s has too few permits left", limit)
		if errors.Is(v.Answer.Err, rratelimiter.ErrPermitsExceedRate) {
			violation.Description = fmt.Sprintf("the call costs more than the limit %s ever grants", limit)
		}
		f.Violations = append(f.Violations, violation)
	}
	return detail(f)
}

// detail packs a detail. It returns nil on an error, which valid UTF-8 excludes.
func detail(m proto.Message) []*anypb.Any {
	packed, err := anypb.New(m)
	if err != nil {
		return nil
	}
	return []*anypb.Any{packed}
}

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
		text = strconv.FormatInt(gate.RoundUp(after, time.Millisecond), 10)
	}
	return metadata.MD{pushbackKey: {text}}
}
