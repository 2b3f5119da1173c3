package rls

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts requests, with the names that dashboards of envoyproxy/ratelimit use.
type metrics struct {
	nearRatio float64

	registry       *prometheus.Registry
	requests       prometheus.Counter
	redisErrors    prometheus.Counter
	serviceErrors  prometheus.Counter
	domainNotFound prometheus.Counter
	globalShadow   prometheus.Counter
	loaded         prometheus.Counter
	notLoaded      prometheus.Counter
	times          prometheus.Histogram
	ofRules        [len(counters)]*prometheus.CounterVec

	mu      sync.RWMutex
	series  map[labelSet]*series
	dynamic int
}

const namespace = "ratelimit_service"

func newMetrics(nearRatio float64) *metrics {
	m := &metrics{nearRatio: nearRatio, registry: prometheus.NewRegistry(), series: make(map[labelSet]*series)}
	auto := promauto.With(m.registry)
	counter := func(name, help string, labels prometheus.Labels) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels})
	}
	method := prometheus.Labels{"grpc_method": "ShouldRateLimit"}
	failed := func(kind string) prometheus.Counter {
		return counter("should_rate_limit_error", "Requests that could not be decided.", prometheus.Labels{"err_type": kind})
	}
	m.requests = counter("total_requests", "Requests.", method)
	m.redisErrors, m.serviceErrors = failed("redis_error"), failed("service_error")
	m.domainNotFound = counter("rate_limit_domain_not_found", "Requests for a domain that no file has.", nil)
	m.globalShadow = counter("global_shadow_mode",
		"Requests over a limit that the shadow mode of the service let pass.", nil)
	m.loaded = counter("config_load_success", "Configurations that took effect.", nil)
	m.notLoaded = counter("config_load_error", "Configurations that did not, the one before staying in force.", nil)
	m.times = auto.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: "response_time_seconds", Help: "How long requests took.", ConstLabels: method,
		Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
	})
	for i, c := range counters {
		opts := prometheus.CounterOpts{Namespace: namespace, Subsystem: "rate_limit", Name: c.name, Help: c.help}
		m.ofRules[i] = auto.NewCounterVec(opts, []string{"domain", "key1", "key2"})
	}
	return m
}

// The bounds of what requests can make.
const (
	maxSeries    = 10_000
	longestLabel = 256 // bytes
)

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

// seriesWith returns the series with some labels, and makes it if needed. The series that requests make are
// bounded in number and length.
func (m *metrics) seriesWith(l labelSet, dynamic bool) *series {
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
		if m.dynamic >= maxSeries {
			return nil
		}
		m.dynamic++
	}
	// Cloned, so that the series do not keep the file's text in memory.
	l = labelSet{strings.Clone(l.domain), strings.Clone(l.key1), strings.Clone(l.key2)}
	made := new(series)
	for i, c := range m.ofRules {
		made[i] = c.WithLabelValues(l.domain, l.key1, l.key2)
	}
	m.series[l] = made
	return made
}

func levelLabels(of string, levels []string) labelSet {
	levels = append(slices.Clip(levels), "", "")
	return labelSet{label(of), label(levels[0]), label(levels[1])}
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
		levels = append(levels, desc.level(at, i))
		if desc.rule != noRule {
			at = &at.find(entry.GetKey(), entry.GetValue()).below
		}
	}
	if existing := m.seriesWith(levelLabels(d.name, levels), true); existing != nil || desc.rule != noRule {
		return cmp.Or(existing, desc.rule.series)
	}
	return m.seriesWith(labelSet{domain: label(d.name), key1: "override"}, false)
}

// level returns the name of a request's entry in metrics.
func (desc *descriptor) level(at *level, i int) string {
	entry := desc.entries[i]
	if desc.rule != noRule {
		r := at.find(entry.GetKey(), entry.GetValue())
		isShared := desc.shared != nil && desc.shared[i] != ""
		if isShared || !desc.rule.DetailedMetric && !r.ValueToMetric {
			return r.levels[i]
		}
	}
	return idOf(entry.GetKey(), entry.GetValue())
}

func (m *metrics) count(d *domain, desc *descriptor) {
	s := m.seriesOf(d, desc)
	if s == nil || desc.action == release || desc.hits == 0 {
		return
	}
	hits := float64(desc.hits)
	s[totalHits].Add(hits)
	if !desc.over {
		s[withinLimit].Add(hits)
		s[nearLimit].Add(m.near(desc))
		return
	}
	s[overLimit].Add(hits)
	if desc.rule.ShadowMode {
		s[shadowMode].Add(hits)
	}
}

// near returns the number of hits above the share of the limit that counts as near.
func (m *metrics) near(desc *descriptor) float64 {
	if desc.action != take || desc.status.GetCurrentLimit() == nil {
		return 0
	}
	most := desc.status.GetCurrentLimit().GetRequestsPerUnit()
	after := float64(most - min(most, desc.status.GetLimitRemaining()))
	threshold := math.Floor(float64(float32(most) * float32(m.nearRatio)))
	return min(float64(desc.hits), max(0, after-threshold))
}

// labelSet identifies a series: a domain, and the first two levels of a rule.
type labelSet struct{ domain, key1, key2 string }

type series [len(counters)]prometheus.Counter

const (
	totalHits = iota
	overLimit
	nearLimit
	withinLimit
	shadowMode
)

var counters = [...]struct{ name, help string }{
	totalHits:   {"total_hits", "Hits of a rule."},
	overLimit:   {"over_limit", "Hits that were over the limit."},
	nearLimit:   {"near_limit", "Hits within the limit that were near it."},
	withinLimit: {"within_limit", "Hits within the limit."},
	shadowMode:  {"shadow_mode", "Hits over the limit that shadow mode let pass."},
}
