package otellimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/limit"
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

// attributeSet holds attributes in the forms that instruments accept without an allocation.
type attributeSet struct {
	attrs  []attribute.KeyValue
	add    []metric.AddOption
	record []metric.RecordOption
}

func newAttributeSet(l labels) *attributeSet {
	attrs := slices.DeleteFunc([]attribute.KeyValue{
		policyKey.String(l.policy), middlewareKey.String(l.middleware), limiterKey.String(l.limiter),
		nodeKey.String(l.node), sourceKey.String(l.source), resultKey.String(string(l.result)),
		errorKey.String(string(l.failure)),
	}, func(kv attribute.KeyValue) bool { return kv.Value.AsString() == "" })
	opt := metric.WithAttributeSet(attribute.NewSet(slices.Clone(attrs)...)) // NewSet sorts its argument
	return &attributeSet{attrs, []metric.AddOption{opt}, []metric.RecordOption{opt}}
}

// registry keeps the attributes of labels. A lookup does not allocate.
type registry struct {
	mu   sync.RWMutex
	made map[labels]*attributeSet
}

func (r *registry) get(l labels) *attributeSet {
	r.mu.RLock()
	found := r.made[l]
	r.mu.RUnlock()
	if found != nil {
		return found
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made[l] == nil {
		r.made[l] = newAttributeSet(l)
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

// failure is a value of error.type. Error texts contain names and addresses and are not reported.
type failure string

const (
	canceled         failure = "canceled"
	deadlineExceeded failure = "deadline_exceeded"
	notInitialized   failure = "not_initialized"
	invalidRequest   failure = "invalid_request"
	state            failure = "state"
	redis            failure = "redis"
	connection       failure = "connection"
	down             failure = "redis_down"
	other            failure = "_OTHER" // OpenTelemetry's value for all without one of their own
)

// sentinels maps errors by value; the first match counts.
var sentinels = []struct {
	err error
	is  failure
}{
	{outage.ErrDown, down},
	{context.Canceled, canceled},
	{context.DeadlineExceeded, deadlineExceeded},
	{os.ErrDeadlineExceeded, deadlineExceeded},
	{rratelimiter.ErrNotInitialized, notInitialized},
	{rratelimiter.ErrPermitsExceedRate, invalidRequest},
	{rratelimiter.ErrInvalidPermits, invalidRequest},
	{rratelimiter.ErrInvalidRate, invalidRequest},
	{rratelimiter.ErrInvalidName, invalidRequest},
	{rratelimiter.ErrInvalidOption, invalidRequest},
	{rratelimiter.ErrCrossSlot, invalidRequest},
	{rratelimiter.ErrNoClient, invalidRequest},
	{limit.ErrInvalidRequest, invalidRequest}, // also grpclimit's
	{rueidis.ErrClosing, connection},
	{net.ErrClosed, connection},
	{io.EOF, connection},
	{io.ErrUnexpectedEOF, connection},
}

func classify(err error) failure {
	if err == nil {
		return ""
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.is
		}
	}
	var corrupt *rratelimiter.StateError
	if errors.As(err, &corrupt) {
		return state
	}
	var reply *rueidis.RedisError
	if errors.As(err, &reply) {
		return redis
	}
	var network net.Error
	if errors.As(err, &network) {
		if network.Timeout() {
			return deadlineExceeded
		}
		return connection
	}
	return other
}

// limiterNames selects the limiters that are reported by name.
type limiterNames struct {
	exact    map[string]bool
	prefixes []string // with their asterisk, the longest first
}

func newNames(listed []string) (limiterNames, error) {
	n := limiterNames{exact: map[string]bool{}}
	for _, name := range listed {
		switch {
		case name == "" || name == "*":
			return n, fmt.Errorf(
				"otellimit: WithLimiterNames: %q selects no limiter: list a name, or a prefix with an asterisk", name)
		case strings.HasSuffix(name, "*"):
			n.prefixes = append(n.prefixes, name)
		default:
			n.exact[name] = true
		}
	}
	slices.SortStableFunc(n.prefixes, func(a, b string) int { return len(b) - len(a) })
	return n, nil
}

// valueOf returns the attribute's value for a limiter name, "" if the name is not listed.
func (n limiterNames) valueOf(name string) string {
	if n.exact[name] {
		return name
	}
	for _, p := range n.prefixes {
		if strings.HasPrefix(name, p[:len(p)-1]) {
			return p
		}
	}
	return ""
}
