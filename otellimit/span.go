package otellimit

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rratelimiter/rratelimiter"
)

// span records a call that waited as a child of the caller's span, with the times of the call.
func (t *Telemetry) span(ctx context.Context, d rratelimiter.DecisionInfo, m *measured) {
	end := time.Now()
	_, span := t.tracer.Start(ctx, "rratelimiter.wait",
		trace.WithTimestamp(end.Add(-d.Took)),
		trace.WithAttributes(m.attrs...),
		trace.WithAttributes(permitsKey.Int64(d.Permits)))
	if d.Err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(end))
}
