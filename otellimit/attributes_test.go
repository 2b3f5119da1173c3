package otellimit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestClassify_Errors_HaveAKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{context.Canceled, "canceled"},
		{fmt.Errorf("rratelimiter: %q: %w", "tenant-7", context.Canceled), "canceled"},
		{context.DeadlineExceeded, "deadline_exceeded"},
		{os.ErrDeadlineExceeded, "deadline_exceeded"},
		{&net.DNSError{Err: "no such host", Name: "redis.internal", IsTimeout: true}, "deadline_exceeded"},
		{fmt.Errorf("%w: %q", rratelimiter.ErrNotInitialized, "tenant-7"), "not_initialized"},
		{fmt.Errorf("%w: 7 of 5", rratelimiter.ErrPermitsExceedRate), "invalid_request"},
		{fmt.Errorf("no key: %w", limit.ErrInvalidRequest), "invalid_request"},
		{fmt.Errorf("rules: cost: %w", httplimit.ErrLengthRequired), "invalid_request"},
		{rratelimiter.ErrInvalidPermits, "invalid_request"},
		{rratelimiter.ErrInvalidRate, "invalid_request"},
		{rratelimiter.ErrInvalidName, "invalid_request"},
		{rratelimiter.ErrInvalidOption, "invalid_request"},
		{rratelimiter.ErrCrossSlot, "invalid_request"},
		{rratelimiter.ErrNoClient, "invalid_request"},
		{fmt.Errorf("rratelimiter: %w", &rratelimiter.StateError{Key: "{tenant-7}:value"}), "state"},
		{rueidis.ErrClosing, "connection"},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "connection"},
		{&net.DNSError{Err: "no such host", Name: "redis.internal"}, "connection"},
		{io.EOF, "connection"},
		{fmt.Errorf("lost: %w", io.ErrUnexpectedEOF), "connection"},
		{net.ErrClosed, "connection"},
		{errSecret, "_OTHER"},
	} {
		assert.EqualValues(t, c.want, classify(c.err), "%v", c.err)
	}
}

func TestClassify_ErrorOfRedis_IsRedis(t *testing.T) {
	redistest.Run(t, func(t *testing.T, r *redistest.Fixture) {
		r.Redis.SetError("OOM command not allowed when used memory > 'maxmemory'.")
		err := redistest.Err(rratelimiter.New(r.Conn).Limiter("tenant-7").TryAcquire(t.Context(), 1))
		assert.Equal(t, redis, classify(err))
	})
}

func TestDecision_Outcomes_CountByResult(t *testing.T) {
	live := context.Background()
	left, late := ended(context.Canceled), ended(context.DeadlineExceeded)
	bound, stop := context.WithTimeout(live, time.Hour)
	defer stop()
	taken := granted("n", "redisson")
	taken.Charged = true
	failed := func(err error) rratelimiter.DecisionInfo { return broken("n", "redisson", err) }
	for _, c := range []struct {
		name   string
		ctx    context.Context
		d      rratelimiter.DecisionInfo
		result string
		kind   string // of the error
	}{
		{"granted", live, granted("n", "redisson"), "acquired", ""},
		{"granted to a cancelled caller", left, granted("n", "redisson"), "acquired", ""},
		{"denied", live, denied("n", "redisson"), "rejected", ""},
		{"cancelled", left, failed(fmt.Errorf("waiting: %w", context.Canceled)), "canceled", "canceled"},
		{"deadline exceeded", late, failed(context.DeadlineExceeded), "canceled", "deadline_exceeded"},
		{"unreachable deadline", bound, failed(context.DeadlineExceeded), "canceled", "deadline_exceeded"},
		{"no reply within the time of rueidis", bound, failed(os.ErrDeadlineExceeded), "failed", "deadline_exceeded"},
		{"charged", live, taken, "charged", ""},
		{"no reply within a timeout", live, failed(context.DeadlineExceeded), "failed", "deadline_exceeded"},
		{"Redis fails and the caller cancels", left, failed(io.EOF), "failed", "connection"},
		{"Redis fails", live, failed(errSecret), "failed", "_OTHER"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setUp(t)
			b.Observer().Decision(c.ctx, c.d)
			want := "rratelimiter.policy=redisson,rratelimiter.result=" + c.result
			if c.kind != "" {
				want = "error.type=" + c.kind + "," + want
			}
			assert.Equal(t, map[string]int64{want: 1}, b.sums("requests"))
		})
	}
}

// By default no attribute of an instrument or span has a name.
func TestNames_OnlyListed_AreAttributes(t *testing.T) {
	for _, c := range []struct {
		listed []string
		want   map[string]string
	}{
		{nil, map[string]string{"paid-api": "", "web:10.0.0.7": "", "": ""}},
		{[]string{"paid-api", "web:*"}, map[string]string{
			"paid-api": "paid-api", "paid-api2": "", "paid": "", "web:10.0.0.7": "web:*", "web:": "web:*", "web": "", "": "",
		}},
		{[]string{"web:*", "web:v6:*", "web:10.0.0.7", "*x*"}, map[string]string{
			"web:10.0.0.8": "web:*", "web:v6:::1": "web:v6:*", "web:10.0.0.7": "web:10.0.0.7", "*xy": "*x*",
		}},
	} {
		b := setUp(t, WithLimiterNames(c.listed...))
		o := b.Observer()
		for name, want := range c.want {
			assert.Equal(t, want, b.names.valueOf(name), name)
			o.Decision(context.Background(), waited(granted(name, "redisson"), time.Second, time.Second))
			o.Decision(context.Background(), broken(name, "redisson", fmt.Errorf("%q at 10.0.0.7", name)))
			o.RedisCall(context.Background(), rratelimiter.RedisCallInfo{Name: name, Policy: "redisson", Requests: 1})
			o.Waiting(context.Background(), rratelimiter.WaitingInfo{Name: name, Policy: "redisson", Change: 1})
			o.Places(rratelimiter.PlacesInfo{Name: name, Change: 1, Expired: 1})
			b.Middleware("http").Request(context.Background(), limit.Outcome{
				Result: limit.FailedOpen, Limiter: name, Err: fmt.Errorf("%q at 10.0.0.7", name),
			})
		}
		text, err := json.Marshal(b.metrics())
		require.NoError(t, err)
		for _, span := range b.spans.Ended() {
			attributes, err := json.Marshal(span.Attributes())
			require.NoError(t, err)
			text = append(text, attributes...)
		}
		limiter := regexp.MustCompile(`"rratelimiter.limiter","Value":{"Type":"STRING","Value":"([^"]*)"`)
		found := limiter.FindAllSubmatch(text, -1)
		assert.Equal(t, c.listed == nil, found == nil)
		for _, m := range found {
			assert.Contains(t, c.listed, string(m[1]))
		}
		others := string(limiter.ReplaceAll(text, nil))
		assert.NotContains(t, others, "10.0.0")
		assert.NotContains(t, others, "paid")
	}
}
