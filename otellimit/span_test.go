package otellimit

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A span is a child of the caller's span, with the times of the call.
func TestSpans_CallsThatWaited_HaveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp(t, WithLimiterNames("paid-api"))
		o := b.Observer()
		ctx, parent := b.tracer.Tracer("program").Start(context.Background(), "GET /")
		start := time.Now()

		o.Decision(ctx, granted("paid-api", "redisson"))
		o.Decision(ctx, denied("paid-api", "redisson"))
		o.Decision(ctx, broken("paid-api", "redisson", errSecret))
		short := granted("paid-api", "redisson")
		short.Took, short.Waited = 5*time.Millisecond, 5*time.Millisecond-1
		o.Decision(ctx, short)
		require.Len(t, b.spans.Started(), 1)

		time.Sleep(1500 * time.Millisecond)
		waited := granted("paid-api", "redisson")
		waited.Permits, waited.Took, waited.Waited = 5, 1500*time.Millisecond, 1400*time.Millisecond
		o.Decision(ctx, waited)
		waited = denied("tenant:7", "token_bucket")
		waited.Took, waited.Waited = time.Second, time.Second
		o.Decision(ctx, waited)
		waited = broken("tenant:7", "token_bucket", fmt.Errorf("%q: %w", "tenant:7", context.Canceled))
		waited.Took, waited.Waited = time.Second, time.Second
		gone, leave := context.WithCancel(ctx)
		leave()
		o.Decision(gone, waited)
		o.Decision(context.Background(), waited)
		parent.End()

		type span struct {
			parent     trace.SpanID
			start, end time.Duration
			status     codes.Code
			attrs      string
		}
		var got []span
		for _, s := range b.spans.Ended() {
			if s.Name() == "GET /" {
				continue
			}
			assert.Equal(t, "rratelimiter.wait", s.Name())
			assert.Equal(t, scope, s.InstrumentationScope().Name)
			assert.Equal(t, trace.SpanKindInternal, s.SpanKind())
			assert.Empty(t, s.Status().Description)
			assert.Empty(t, s.Events())
			set := attribute.NewSet(s.Attributes()...)
			got = append(got, span{s.Parent().SpanID(), s.StartTime().Sub(start), s.EndTime().Sub(start), s.Status().Code,
				set.Encoded(attribute.DefaultEncoder())})
		}
		id, end := parent.SpanContext().SpanID(), 1500*time.Millisecond
		assert.Equal(t, []span{
			{id, 0, end, codes.Unset,
				"rratelimiter.limiter=paid-api,rratelimiter.permits=5,rratelimiter.policy=redisson,rratelimiter.result=acquired"},
			{id, end - time.Second, end, codes.Unset,
				"rratelimiter.permits=1,rratelimiter.policy=token_bucket,rratelimiter.result=rejected"},
			{id, end - time.Second, end, codes.Error,
				"error.type=canceled,rratelimiter.permits=1,rratelimiter.policy=token_bucket,rratelimiter.result=canceled"},
			{trace.SpanID{}, end - time.Second, end, codes.Error,
				"error.type=canceled,rratelimiter.permits=1,rratelimiter.policy=token_bucket,rratelimiter.result=failed"},
		}, got)
	})
}

func TestWithSpansAfter_ShorterWaits_HaveNone(t *testing.T) {
	for after, short := range map[time.Duration]time.Duration{0: 0, time.Minute: time.Minute - 1} {
		b := setUp(t, WithSpansAfter(after))
		d := granted("paid-api", "redisson")
		d.Took, d.Waited = time.Minute, short
		b.Observer().Decision(context.Background(), d)
		assert.Empty(t, b.spans.Ended(), after)
		d.Waited++
		b.Observer().Decision(context.Background(), d)
		assert.Len(t, b.spans.Ended(), 1, after)
	}
}
