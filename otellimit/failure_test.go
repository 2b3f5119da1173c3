package otellimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestClassify_Errors_HaveAKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{context.Canceled, "canceled"},
		{fmt.Errorf("rratelimiter: %q: %w", "tenant-7", context.Canceled), "canceled"},
		{context.DeadlineExceeded, "deadline_exceeded"},
		{os.ErrDeadlineExceeded, "deadline_exceeded"},
		{&net.DNSError{Err: "no such host", Name: "redis.internal", IsTimeout: true}, "deadline_exceeded"},
		{fmt.Errorf("%w: %q", rratelimiter.ErrNotInitialized, "tenant-7"), "not_initialized"},
		{fmt.Errorf("%w: 7 of 5", rratelimiter.ErrPermitsExceedRate), "permits_exceed_rate"},
		{fmt.Errorf("no key: %w", httplimit.ErrInvalidRequest), "invalid_request"},
		{fmt.Errorf("rules: cost: %w", httplimit.ErrLengthRequired), "invalid_request"},
		{rratelimiter.ErrInvalidPermits, "invalid_argument"},
		{rratelimiter.ErrInvalidRate, "invalid_argument"},
		{rratelimiter.ErrInvalidName, "invalid_argument"},
		{rratelimiter.ErrInvalidOption, "invalid_argument"},
		{rratelimiter.ErrCrossSlot, "invalid_argument"},
		{rratelimiter.ErrNoClient, "invalid_argument"},
		{fmt.Errorf("rratelimiter: %w", &rratelimiter.StateError{Key: "{tenant-7}:value"}), "state"},
		{rueidis.ErrClosing, "connection"},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "connection"},
		{&net.DNSError{Err: "no such host", Name: "redis.internal"}, "connection"},
		{io.EOF, "connection"},
		{fmt.Errorf("lost: %w", io.ErrUnexpectedEOF), "connection"},
		{net.ErrClosed, "connection"},
		{io.ErrClosedPipe, "connection"},
		{errSecret, "_OTHER"},
	} {
		assert.Equal(t, c.want, failures[classify(c.err)], "%v", c.err)
	}
	assert.Equal(t, noFailure, classify(nil))
}

func TestClassify_RedisFailures_HaveAKind(t *testing.T) {
	server := miniredis.RunT(t)
	conn, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
	})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	window := limit.New(rratelimiter.New(conn), "tenant-7", limit.FixedWindow{Permits: 5, Interval: time.Minute})
	kind := func() string {
		_, err := window.TryAcquire(context.Background(), 1)
		return failures[classify(err)]
	}
	assert.Equal(t, "", kind())
	server.SetError("LOADING Redis is loading the dataset in memory")
	assert.Equal(t, "redis", kind())
	server.SetError("")
	server.Close()
	assert.Equal(t, "connection", kind())
}

func TestDecision_Outcomes_CountByResult(t *testing.T) {
	live := context.Background()
	left, late := ended(context.Canceled), ended(context.DeadlineExceeded)
	bound, stop := context.WithTimeout(live, time.Hour)
	defer stop()
	taken := granted("n", "redisson")
	taken.Charged = true
	for _, c := range []struct {
		name string
		ctx  context.Context
		d    rratelimiter.DecisionInfo
		want string
	}{
		{"granted", live, granted("n", "redisson"), "rratelimiter.policy=redisson,rratelimiter.result=acquired"},
		{"granted to a cancelled caller", left, granted("n", "redisson"),
			"rratelimiter.policy=redisson,rratelimiter.result=acquired"},
		{"denied", live, denied("n", "redisson"), "rratelimiter.policy=redisson,rratelimiter.result=rejected"},
		{"cancelled", left, broken("n", "redisson", fmt.Errorf("waiting: %w", context.Canceled)),
			"error.type=canceled,rratelimiter.policy=redisson,rratelimiter.result=canceled"},
		{"deadline exceeded", late, broken("n", "redisson", context.DeadlineExceeded),
			"error.type=deadline_exceeded,rratelimiter.policy=redisson,rratelimiter.result=canceled"},
		{"unreachable deadline", bound, broken("n", "redisson", context.DeadlineExceeded),
			"error.type=deadline_exceeded,rratelimiter.policy=redisson,rratelimiter.result=canceled"},
		{"no reply within the time of rueidis", bound, broken("n", "redisson", os.ErrDeadlineExceeded),
			"error.type=deadline_exceeded,rratelimiter.policy=redisson,rratelimiter.result=failed"},
		{"charged", live, taken, "rratelimiter.policy=redisson,rratelimiter.result=charged"},
		{"no reply within a timeout", live, broken("n", "redisson", context.DeadlineExceeded),
			"error.type=deadline_exceeded,rratelimiter.policy=redisson,rratelimiter.result=failed"},
		{"Redis fails and the caller cancels", left, broken("n", "redisson", io.EOF),
			"error.type=connection,rratelimiter.policy=redisson,rratelimiter.result=failed"},
		{"Redis fails", live, broken("n", "redisson", errors.New("dial tcp 10.0.0.7")),
			"error.type=_OTHER,rratelimiter.policy=redisson,rratelimiter.result=failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := setUp(t)
			b.Observer().Decision(c.ctx, c.d)
			assert.Equal(t, map[string]int64{c.want: 1}, b.sums("requests"))
		})
	}
}
