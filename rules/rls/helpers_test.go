package rls_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// folder writes files, and returns their folder.
func folder(t testing.TB, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o600))
	}
	return dir
}

// newServer returns a server with a configuration file. Functions may change other fields.
func newServer(t testing.TB, client *rratelimiter.Client, config string, change ...func(*rls.Config)) *rls.Server {
	t.Helper()
	c := rls.Config{Client: client, Path: folder(t, config), Log: quiet(), Deadline: 10 * time.Second} // for a busy machine
	for _, f := range change {
		f(&c)
	}
	s, err := rls.New(c)
	require.NoError(t, err)
	return s
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// request reads a request from a short form: "domain x3 | a=b c=d +5 | e". x3 are the hits of the
// request. A descriptor may add hits (+5), release them (-5), or have its own limit (5/minute).
func request(t testing.TB, text string) *ratelimit.RateLimitRequest {
	t.Helper()
	parts := strings.Split(text, " | ")
	made := new(ratelimit.RateLimitRequest)
	for i, word := range strings.Fields(parts[0]) {
		if i == 0 {
			made.Domain = strings.TrimPrefix(word, "-")
		} else {
			made.HitsAddend = uint32(number(t, strings.TrimPrefix(word, "x")))
		}
	}
	for _, part := range parts[1:] {
		d := new(common.RateLimitDescriptor)
		for _, word := range strings.Fields(part) {
			amount, unit, slash := strings.Cut(word, "/")
			key, value, equals := strings.Cut(word, "=")
			switch {
			case word[0] == '+' || word[0] == '-':
				d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(number(t, word[1:])), word[0] == '-'
			case slash && !equals:
				number64, ok := typev3.RateLimitUnit_value[strings.ToUpper(unit)]
				require.True(t, ok, unit)
				d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(number(t, amount)),
					Unit: typev3.RateLimitUnit(number64)}
			default:
				d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
			}
		}
		made.Descriptors = append(made.Descriptors, d)
	}
	return made
}

func number(t testing.TB, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

// summary returns an answer in a short form: "OVER | OK 4/5 minute 60s | OVER 0/1 day 3600s name |
// OK | OK unlimited".
func summary(response *ratelimit.RateLimitResponse, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	code := func(c ratelimit.RateLimitResponse_Code) string { return strings.TrimSuffix(c.String(), "_LIMIT") }
	parts := []string{code(response.GetOverallCode())}
	for _, s := range response.GetStatuses() {
		part := code(s.GetCode())
		if l := s.GetCurrentLimit(); l != nil {
			part += fmt.Sprintf(" %d/%d %s %ds", s.GetLimitRemaining(), l.GetRequestsPerUnit(),
				strings.ToLower(l.GetUnit().String()), s.GetDurationUntilReset().GetSeconds())
			if l.GetName() != "" {
				part += " " + l.GetName()
			}
		} else if s.GetLimitRemaining() == math.MaxUint32 {
			part += " unlimited"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " | ")
}

// scenario is the descriptors of the domain d, and requests in their order.
type scenario struct {
	name        string
	descriptors string
	exchanges   []exchange
}

// config returns the scenario's file for a domain.
func (s scenario) config(domain string) string {
	return "domain: " + domain + "\ndescriptors:" + s.descriptors
}

// exchange is a request after a pause, and its answer.
type exchange struct {
	pause time.Duration
	ask   string
	want  string
}

// TestShouldRateLimit_Requests_AreDecidedAsByTheReference, envoyproxy/ratelimit, except for the
// scenarios beyond it. Each has a Redis of its own.
func TestShouldRateLimit_Requests_AreDecidedAsByTheReference(t *testing.T) {
	for _, s := range allScenarios {
		t.Run(s.name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				server := newServer(t, client, s.config("d"))
				for i, e := range s.exchanges {
					time.Sleep(e.pause)
					got := summary(server.ShouldRateLimit(context.Background(), request(t, e.ask)))
					if !strings.Contains(e.want, "|") { // only the result of the request
						got, _, _ = strings.Cut(got, " |")
					}
					assert.Equal(t, e.want, got, "exchange %d: %s", i+1, e.ask)
				}
			})
		})
	}
}
