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

		const end = 1500 * time.Millisecond
		o.Decision(ctx, granted("paid-api", "redisson"))
		o.Decision(ctx, denied("paid-api", "redisson"))
		o.Decision(ctx, broken("paid-api", "redisson", errSecret))
		o.Decision(ctx, waited(granted("paid-api", "redisson"), 5*time.Millisecond, 5*time.Millisecond-1))
		require.Len(t, b.spans.Started(), 1)

		time.Sleep(end)
		five := waited(granted("paid-api", "redisson"), end, end-100*time.Millisecond)
		five.Permits = 5
		o.Decision(ctx, five)
		o.Decision(ctx, waited(denied("tenant:7", "token_bucket"), time.Second, time.Second))
		canceled := fmt.Errorf("%q: %w", "tenant:7", context.Canceled)
		gone, leave := context.WithCancel(ctx)
		leave()
		for _, ctx := range []context.Context{gone, context.Background()} {
			o.Decision(ctx, waited(broken("tenant:7", "token_bucket", canceled), time.Second, time.Second))
		}
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
		id := parent.SpanContext().SpanID()
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
		b.Observer().Decision(context.Background(), waited(d, time.Minute, short))
		assert.Empty(t, b.spans.Ended(), after)
		b.Observer().Decision(context.Background(), waited(d, time.Minute, short+1))
		assert.Len(t, b.spans.Ended(), 1, after)
	}
}
