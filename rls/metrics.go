package rls

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// metrics counts requests, with the names that dashboards of envoyproxy/ratelimit use.
type metrics struct {
	nearRatio float64
	most      int // the largest number of series that requests can make

	requests       atomic.Uint64
	redisErrors    atomic.Uint64
	serviceErrors  atomic.Uint64
	domainNotFound atomic.Uint64
	globalShadow   atomic.Uint64
	untrusted      atomic.Uint64
	loaded         atomic.Uint64
	notLoaded      atomic.Uint64
	times          histogram

	mu      sync.RWMutex
	series  map[labelSet]*series
	dynamic int
}

// labelSet identifies a series: a domain, and the first two levels of a rule.
type labelSet struct{ domain, key1, key2 string }

// series has the counters of a rule.
type series [len(counters)]atomic.Uint64

// The indexes of counters.
const (
	totalHits = iota
	overLimit
	nearLimit
	withinLimit
	shadowMode
)

// counters describes the counters of a series.
var counters = [...]struct{ name, help string }{
	totalHits:   {"total_hits", "Hits of a rule."},
	overLimit:   {"over_limit", "Hits that were over the limit."},
	nearLimit:   {"near_limit", "Hits within the limit that were near it."},
	withinLimit: {"within_limit", "Hits within the limit."},
	shadowMode:  {"shadow_mode", "Hits over the limit that shadow mode let pass."},
}

const longestLabel = 256 // bytes

var address = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// label shortens a level for a label.
func label(text string) string {
	text = strings.ToValidUTF8(text, "_")
	if strings.ContainsAny(text, ":|") {
		text = strings.NewReplacer(":", "_", "|", "_").Replace(text)
	}
	if strings.Count(text, ".") < 3 {
		return text
	}
	return address.ReplaceAllStringFunc(text, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}

// of returns the series of a rule, and makes it if needed. The series that requests make are
// bounded in number and length.
func (m *metrics) of(l labelSet, dynamic bool) *series {
	m.mu.RLock()
	existing := m.series[l]
	m.mu.RUnlock()
	if existing != nil || dynamic && len(l.key1)+len(l.key2) > longestLabel {
		return existing
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if existing = m.series[l]; existing != nil {
		return existing
	}
	if dynamic {
		if m.dynamic >= m.most {
			return nil
		}
		m.dynamic++
	}
	if m.series == nil {
		m.series = make(map[labelSet]*series)
	}
	made := new(series)
	// Cloned, so that the map does not keep the file's text in memory.
	m.series[labelSet{strings.Clone(l.domain), strings.Clone(l.key1), strings.Clone(l.key2)}] = made
	return made
}

// adopt gives a rule its series. A rule that existed before keeps its counters.
func (m *metrics) adopt(of string, r *rule) {
	if len(r.limits) > 0 {
		r.series = m.of(levelLabels(of, r.levels), false)
	}
}

func levelLabels(of string, levels []string) labelSet {
	l := labelSet{domain: label(of)}
	if len(levels) > 0 {
		l.key1 = label(levels[0])
	}
	if len(levels) > 1 {
		l.key2 = label(levels[1])
	}
	return l
}

// seriesOf returns the series of a descriptor: that of its rule, or if the rule or one above has
// detailed metrics, one for the request's values.
func (m *metrics) seriesOf(d *domain, desc *descriptor) *series {
	if !desc.rule.dynamic {
		return desc.rule.series
	}
	var levels []string
	at := &d.rules
	for i, entry := range desc.entries[:min(2, len(desc.entries))] {
		levels = append(levels, desc.level(at, i, entry))
		if desc.rule != noRule {
			at = &at.find(entry.GetKey(), entry.GetValue()).below
		}
	}
	if existing := m.of(levelLabels(d.name, levels), true); existing != nil || desc.rule != noRule {
		return cmp.Or(existing, desc.rule.series)
	}
	return m.of(labelSet{domain: label(d.name), key1: "override"}, false)
}

// level returns the name of a request's entry in metrics.
func (desc *descriptor) level(at *level, i int, entry *common.RateLimitDescriptor_Entry) string {
	key, value := entry.GetKey(), entry.GetValue()
	if desc.rule != noRule {
		r := at.find(key, value)
		if desc.stored != nil && desc.stored[i] != "" || !desc.rule.detailed && !r.valueInName {
			return r.id()
		}
	}
	if value == "" {
		return key
	}
	return key + "_" + value
}

// count counts the result of a descriptor.
func (m *metrics) count(d *domain, desc *descriptor) {
	s := m.seriesOf(d, desc)
	if s == nil || desc.action == release || desc.hits == 0 {
		return
	}
	s[totalHits].Add(desc.hits)
	if !desc.over {
		s[withinLimit].Add(desc.hits)
		s[nearLimit].Add(m.near(desc))
		return
	}
	s[overLimit].Add(desc.hits)
	if desc.rule.shadow {
		s[shadowMode].Add(desc.hits)
	}
}

// near returns the number of hits above the share of the limit that counts as near.
func (m *metrics) near(desc *descriptor) uint64 {
	if desc.action != take || desc.status.GetCurrentLimit() == nil {
		return 0
	}
	most := uint64(desc.status.GetCurrentLimit().GetRequestsPerUnit())
	after := most - min(most, uint64(desc.status.GetLimitRemaining()))
	threshold := uint64(math.Floor(float64(float32(most) * float32(m.nearRatio))))
	if after <= threshold {
		return 0
	}
	return min(desc.hits, after-threshold)
}

// write writes all metrics in the text format of Prometheus.
func (m *metrics) write(w io.Writer) error {
	var b bytes.Buffer
	m.mu.RLock()
	all := maps.Clone(m.series)
	m.mu.RUnlock()
	order := slices.SortedFunc(maps.Keys(all), func(a, b labelSet) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.key1, b.key1), cmp.Compare(a.key2, b.key2))
	})
	for i, c := range counters {
		name := "ratelimit_service_rate_limit_" + c.name
		head(&b, name, "counter", c.help)
		for _, l := range order {
			fmt.Fprintf(&b, "%s{domain=%s,key1=%s", name, quoted(l.domain), quoted(l.key1))
			if l.key2 != "" {
				b.WriteString(",key2=" + quoted(l.key2))
			}
			fmt.Fprintf(&b, "} %d\n", all[l][i].Load())
		}
	}
	before := ""
	for _, c := range []struct {
		name, labels, help string
		value              *atomic.Uint64
	}{
		{"rate_limit_domain_not_found", "", "Requests for a domain that no file has.", &m.domainNotFound},
		{"global_shadow_mode", "", "Requests over a limit that the shadow mode of the service let pass.", &m.globalShadow},
		{"auth_untrusted_peer", "", "Requests of /auth whose peer is no trusted proxy, so that its address counted.",
			&m.untrusted},
		{"should_rate_limit_error", `{err_type="redis_error"}`, "Requests that could not be decided.", &m.redisErrors},
		{"should_rate_limit_error", `{err_type="service_error"}`, "", &m.serviceErrors},
		{"total_requests", `{grpc_method="ShouldRateLimit"}`, "Requests.", &m.requests},
		{"config_load_success", "", "Configurations that took effect.", &m.loaded},
		{"config_load_error", "", "Configurations that did not, the one before staying in force.", &m.notLoaded},
	} {
		if c.name != before {
			head(&b, "ratelimit_service_"+c.name, "counter", c.help)
		}
		fmt.Fprintf(&b, "ratelimit_service_%s%s %d\n", c.name, c.labels, c.value.Load())
		before = c.name
	}
	m.times.write(&b, "ratelimit_service_response_time_seconds", `grpc_method="ShouldRateLimit"`)
	_, err := w.Write(b.Bytes())
	return err
}

func head(b *bytes.Buffer, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func quoted(text string) string { return `"` + escapes.Replace(text) + `"` }

// histogram counts the durations of requests.
type histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64
	nanos   atomic.Uint64
}

var bounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second,
}

func (h *histogram) observe(d time.Duration) {
	i, _ := slices.BinarySearch(bounds[:], d) // the first bound from d on
	h.buckets[i].Add(1)
	h.nanos.Add(uint64(max(0, d)))
}

func (h *histogram) write(b *bytes.Buffer, name, labels string) {
	head(b, name, "histogram", "How long requests took.")
	var total uint64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		bound := "+Inf"
		if i < len(bounds) {
			bound = strconv.FormatFloat(bounds[i].Seconds(), 'g', -1, 64)
		}
		fmt.Fprintf(b, "%s_bucket{%s,le=%q} %d\n", name, labels, bound, total)
	}
	fmt.Fprintf(b, "%s_sum{%s} %g\n%s_count{%s} %d\n", name, labels, time.Duration(h.nanos.Load()).Seconds(), name,
		labels, total)
}
