package otellimit

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Attribute keys.
const (
	policyKey  = attribute.Key("rratelimiter.policy")
	resultKey  = attribute.Key("rratelimiter.result")
	limiterKey = attribute.Key("rratelimiter.limiter")
	doorKey    = attribute.Key("rratelimiter.door")
	permitsKey = attribute.Key("rratelimiter.permits") // only of spans
	errorKey   = attribute.Key("error.type")
)

// measured holds attributes in the forms that instruments accept without an allocation.
type measured struct {
	attrs  []attribute.KeyValue
	add    []metric.AddOption
	record []metric.RecordOption
}

// subject identifies a series: decisions of a policy, or requests at a Door. An empty field is no
// attribute.
type subject struct {
	policy  string
	door    string
	limiter string
}

// sets holds the attributes of a subject for each result and failure, created on first use.
type sets struct {
	base []attribute.KeyValue
	made [resultCount][failureCount]atomic.Pointer[measured]
}

func newSets(of subject) *sets {
	s := &sets{}
	for _, kv := range []attribute.KeyValue{
		policyKey.String(of.policy), doorKey.String(of.door), limiterKey.String(of.limiter),
	} {
		if kv.Value.AsString() != "" {
			s.base = append(s.base, kv)
		}
	}
	return s
}

// with returns the attributes of the subject with a result and a failure.
func (s *sets) with(r result, f failure) *measured {
	place := &s.made[r][f]
	if m := place.Load(); m != nil {
		return m
	}
	attrs := append([]attribute.KeyValue(nil), s.base...)
	if r != noResult {
		attrs = append(attrs, resultKey.String(results[r]))
	}
	if f != noFailure {
		attrs = append(attrs, errorKey.String(failures[f]))
	}
	sorted := append([]attribute.KeyValue(nil), attrs...) // NewSet sorts its argument
	opt := metric.WithAttributeSet(attribute.NewSet(sorted...))
	m := &measured{attrs, []metric.AddOption{opt}, []metric.RecordOption{opt}}
	place.Store(m) // a concurrent caller stores an equal value
	return m
}

// most bounds the number of subjects. The SDK keeps 2,000 attribute sets per instrument, and a
// subject has several.
const most = 1000

// subjects maps subjects to their sets. A lookup takes no lock and does not allocate.
type subjects struct {
	made atomic.Pointer[map[subject]*sets]
	mu   sync.Mutex // serializes writers
}

func (s *subjects) of(key subject) *sets {
	made := s.load()
	found := made[key]
	if found == nil && len(made) >= most {
		found = made[key.other()]
	}
	if found == nil {
		found = s.add(key)
	}
	return found
}

func (s *subjects) load() map[subject]*sets {
	if made := s.made.Load(); made != nil {
		return *made
	}
	return nil
}

func (s *subjects) add(key subject) *sets {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.load()
	if before[key] == nil && len(before) >= most {
		key = key.other()
	}
	if found := before[key]; found != nil {
		return found // a concurrent caller has added it
	}
	after := maps.Clone(before)
	if after == nil {
		after = map[subject]*sets{}
	}
	after[key] = newSets(key)
	s.made.Store(&after)
	return after[key]
}

// other returns the subject that counts for s if there are too many.
func (s subject) other() subject {
	if s.policy != "" {
		return subject{policy: otherValue}
	}
	return subject{door: otherValue}
}

// otherValue is OpenTelemetry's conventional value for all values without one of their own.
const otherValue = "_OTHER"
