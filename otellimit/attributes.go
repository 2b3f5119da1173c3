package otellimit

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The attributes.
const (
	policyKey  = attribute.Key("rratelimiter.policy")
	resultKey  = attribute.Key("rratelimiter.result")
	limiterKey = attribute.Key("rratelimiter.limiter")
	doorKey    = attribute.Key("rratelimiter.door")
	permitsKey = attribute.Key("rratelimiter.permits") // of spans alone
	errorKey   = attribute.Key("error.type")
)

// measured is attributes in the forms in which instruments take them without allocating: made once, used for each request.
type measured struct {
	attrs  []attribute.KeyValue
	add    []metric.AddOption
	record []metric.RecordOption
}

// subject is what is measured: the decisions of a policy, or the requests at a door. What is "" is no attribute.
type subject struct {
	policy  string
	door    string
	limiter string
}

// sets is the attributes of a subject with each result and failure, made as they come.
type sets struct {
	base []attribute.KeyValue
	made [resultCount][failureCount]atomic.Pointer[measured]
}

func newSets(of subject) *sets {
	s := &sets{}
	for _, kv := range []attribute.KeyValue{policyKey.String(of.policy), doorKey.String(of.door), limiterKey.String(of.limiter)} {
		if kv.Value.AsString() != "" {
			s.base = append(s.base, kv)
		}
	}
	return s
}

// with is the attributes of the subject, a result and a failure.
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
	opt := metric.WithAttributeSet(attribute.NewSet(append([]attribute.KeyValue(nil), attrs...)...)) // which sorts what it is given
	m := &measured{attrs, []metric.AddOption{opt}, []metric.RecordOption{opt}}
	place.Store(m) // whoever else has made them has made the same
	return m
}

// most is how many subjects are told apart. The SDK keeps 2,000 attribute sets of an instrument, and a subject has several.
const most = 1000

// subjects is the sets that were made before. To look them up takes no lock and no memory.
type subjects struct {
	made atomic.Pointer[map[subject]*sets]
	mu   sync.Mutex // of those that add to it
}

func (s *subjects) of(key subject) *sets {
	made := s.known()
	found := made[key]
	if found == nil && len(made) >= most {
		found = made[key.other()]
	}
	if found == nil {
		found = s.add(key)
	}
	return found
}

func (s *subjects) known() map[subject]*sets {
	if made := s.made.Load(); made != nil {
		return *made
	}
	return nil
}

func (s *subjects) add(key subject) *sets {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.known()
	if before[key] == nil && len(before) >= most {
		key = key.other()
	}
	if found := before[key]; found != nil {
		return found // who came meanwhile has added it
	}
	after := maps.Clone(before)
	if after == nil {
		after = map[subject]*sets{}
	}
	after[key] = newSets(key)
	s.made.Store(&after)
	return after[key]
}

// other is what a subject is counted as that is one too many.
func (s subject) other() subject {
	if s.policy != "" {
		return subject{policy: otherValue}
	}
	return subject{door: otherValue}
}

// otherValue is what OpenTelemetry's conventions call a value that is none of those that are told.
const otherValue = "_OTHER"
