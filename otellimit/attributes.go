package otellimit

import (
	"slices"
	"sync"
	"sync/atomic"

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

// measured holds attributes in the forms that instruments accept without an allocation.
type measured struct {
	attrs  []attribute.KeyValue
	add    []metric.AddOption
	record []metric.RecordOption
}

// source is what measurements are about: the limiters of a policy, or a Middleware. An empty field is
// no attribute.
type source struct {
	policy     string
	middleware string
	limiter    string
	node       string
	by         string // the local share
}

// attributeSets holds the attributes of a source for each result and failure, created on first use.
type attributeSets struct {
	base []attribute.KeyValue
	made [resultCount][failureCount]atomic.Pointer[measured]
}

func newSets(of source) *attributeSets {
	s := &attributeSets{}
	for _, kv := range []attribute.KeyValue{
		policyKey.String(of.policy), middlewareKey.String(of.middleware), limiterKey.String(of.limiter),
		nodeKey.String(of.node), sourceKey.String(of.by),
	} {
		if kv.Value.AsString() != "" {
			s.base = append(s.base, kv)
		}
	}
	return s
}

// with returns the attributes of the source with a result and a failure.
func (s *attributeSets) with(r result, f failure) *measured {
	place := &s.made[r][f]
	if m := place.Load(); m != nil {
		return m
	}
	attrs := slices.Clone(s.base)
	if r != noResult {
		attrs = append(attrs, resultKey.String(results[r]))
	}
	if f != noFailure {
		attrs = append(attrs, errorKey.String(failures[f]))
	}
	opt := metric.WithAttributeSet(attribute.NewSet(slices.Clone(attrs)...)) // NewSet sorts its argument
	m := &measured{attrs, []metric.AddOption{opt}, []metric.RecordOption{opt}}
	place.Store(m) // a concurrent caller stores an equal value
	return m
}

// maxSources bounds the number of sources. The SDK keeps 2,000 attribute sets per instrument, and a
// source has several.
const maxSources = 1000

// registry maps sources to their sets. A lookup does not allocate.
type registry struct {
	mu   sync.RWMutex
	made map[source]*attributeSets
}

func (r *registry) of(key source) *attributeSets {
	r.mu.RLock()
	found := lookup(r.made, &key)
	r.mu.RUnlock()
	if found != nil {
		return found
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if found = lookup(r.made, &key); found != nil {
		return found // a concurrent caller has added it
	}
	if r.made == nil {
		r.made = make(map[source]*attributeSets)
	}
	r.made[key] = newSets(key)
	return r.made[key]
}

// lookup returns the sets of a source, nil for none. If there are too many sources, it replaces a new
// one by the source that counts for it.
func lookup(made map[source]*attributeSets, key *source) *attributeSets {
	if found := made[*key]; found != nil || len(made) < maxSources {
		return found
	}
	*key = key.other()
	return made[*key]
}

// other returns the source that counts for s if there are too many.
func (s source) other() source {
	if s.policy != "" {
		return source{policy: otherValue}
	}
	return source{middleware: otherValue}
}

// otherValue is OpenTelemetry's conventional value for all values without one of their own.
const otherValue = "_OTHER"

// result is an index of results, the values of rratelimiter.result.
type result int

const (
	noResult result = iota
	acquired
	rejected
	gaveUp
	charged
	failed
	shadowed
	failedOpen
	failedClosed
	invalid
	succeeded
	unknown
	resultCount
)

var results = [resultCount]string{
	acquired:     "acquired",
	rejected:     "rejected",
	gaveUp:       "canceled",
	charged:      "charged",
	failed:       "failed",
	shadowed:     "shadowed",
	failedOpen:   "failed_open",
	failedClosed: "failed_closed",
	invalid:      "invalid",
	succeeded:    "succeeded",
	unknown:      otherValue,
}
