package otellimit

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	policyKey     = attribute.Key("rratelimiter.policy")
	resultKey     = attribute.Key("rratelimiter.result")
	limiterKey    = attribute.Key("rratelimiter.limiter")
	middlewareKey = attribute.Key("rratelimiter.middleware")
	sourceKey     = attribute.Key("rratelimiter.source")  // of decisions by a local share
	nodeKey       = attribute.Key("rratelimiter.node")    // only of fallback.active
	permitsKey    = attribute.Key("rratelimiter.permits") // only of spans
	errorKey      = attribute.Key("error.type")
)

// labels are the values of a measurement's attributes. An empty one is no attribute.
type labels struct {
	policy     string
	middleware string
	limiter    string
	node       string
	source     string
	result     result
	failure    failure
}

// measured holds attributes in the forms that instruments accept without an allocation.
type measured struct {
	attrs  []attribute.KeyValue
	add    []metric.AddOption
	record []metric.RecordOption
}

func newMeasured(l labels) *measured {
	attrs := slices.DeleteFunc([]attribute.KeyValue{
		policyKey.String(l.policy), middlewareKey.String(l.middleware), limiterKey.String(l.limiter),
		nodeKey.String(l.node), sourceKey.String(l.source), resultKey.String(string(l.result)),
		errorKey.String(string(l.failure)),
	}, func(kv attribute.KeyValue) bool { return kv.Value.AsString() == "" })
	opt := metric.WithAttributeSet(attribute.NewSet(slices.Clone(attrs)...)) // NewSet sorts its argument
	return &measured{attrs, []metric.AddOption{opt}, []metric.RecordOption{opt}}
}

// registry keeps the measured of labels. A lookup does not allocate.
type registry struct {
	mu   sync.RWMutex
	made map[labels]*measured
}

func (r *registry) of(l labels) *measured {
	r.mu.RLock()
	found := r.made[l]
	r.mu.RUnlock()
	if found != nil {
		return found
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made[l] == nil {
		r.made[l] = newMeasured(l)
	}
	return r.made[l]
}

// result is a value of rratelimiter.result.
type result string

const (
	acquired     result = "acquired"
	rejected     result = "rejected"
	gaveUp       result = "canceled"
	charged      result = "charged"
	failed       result = "failed"
	shadowed     result = "shadowed"
	failedOpen   result = "failed_open"
	failedClosed result = "failed_closed"
	invalid      result = "invalid"
	succeeded    result = "succeeded"
)
