package rls_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// TestShouldRateLimit_Denial_EndsTheCalls of a request.
func TestShouldRateLimit_Denial_EndsTheCalls(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, `
domain: x
descriptors:
  - {key: own, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: files, value: f/*, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 100}}
  - {key: one, rate_limit: {unit: year, requests_per_unit: 5}}
`)
		for _, e := range []struct {
			ask   string
			want  string
			calls int64
		}{
			{"x | own=a | own=a | one=a", "OK", 2},
			{"x | own=b +2 | one=a +3", "OK", 2},
			{"x | own=b | files=f/1 | files=f/2", "OVER", 1},
			{"x | files=f/1 | files=f/2 | own=b", "OVER", 1},
			{"x | files=f/1" + strings.Repeat(" | files=f/2", 19), "OK", 1}, // equal limiters
			{"x | own=c +3 | one=b", "OVER", 1},                             // denied here: a peek
			{"x" + strings.Repeat(" | own=d", 3), "OVER", 0},
			{"x | own=b | files=f/1", "OVER", 1},
		} {
			before := f.Scripts.Load()
			got := summary(s.ShouldRateLimit(context.Background(), request(t, e.ask)))
			assert.Equal(t, e.want, strings.Fields(got)[0], e.ask)
			assert.Equal(t, e.calls, f.Scripts.Load()-before, e.ask)
		}
	})
}

// On a cluster, descriptors are decided apart, unless slot_by puts their limiters into one slot.
func TestShouldRateLimit_Cluster_JoinsOneSlot(t *testing.T) {
	for slotBy, want := range map[string][]string{
		"other":  {"OVER | OK 1/3 hour 3600s | OVER 0/1 hour 3600s", "OVER | OK 0/3 hour 3600s | OVER 0/0 hour 3600s"},
		"tenant": {"OVER | OK 2/3 hour 3600s | OVER 0/1 hour 3600s", "OVER | OK 2/3 hour 3600s | OVER 0/0 hour 3600s"},
	} {
		redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
			s := newServer(c, rratelimiter.New(c.Conn), `
domain: d
descriptors:
  - key: tenant
    descriptors:
      - {key: wide, rate_limit: {unit: hour, requests_per_unit: 3}}
      - {key: tight, rate_limit: {unit: hour, requests_per_unit: 1}}
      - {key: ban, rate_limit: {unit: hour, requests_per_unit: 0}}
slot_by: `+slotBy)
			ask := func(second string) string {
				return summary(s.ShouldRateLimit(c.Context(), request(c.T, "d | tenant={7} wide | tenant={7} "+second)))
			}
			assert.Equal(c, "OK | OK 2/3 hour 3600s | OK 0/1 hour 3600s", ask("tight"), slotBy)
			assert.Equal(c, want, []string{ask("tight"), ask("ban")}, slotBy)
		})
	}
}

// changing is a client that learns late that Redis is a single one.
type changing struct {
	rueidis.Client
	mode *rueidis.ClientMode
}

func (c changing) Mode() rueidis.ClientMode { return *c.mode }

// A service may start before Redis. Then one call decides the limits of a request.
func TestShouldRateLimit_ModeOfTheClientChanges_DenialTakesNothing(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		mode := rueidis.ClientModeCluster
		s := newServer(t, rratelimiter.New(changing{f.Conn, &mode}), `
domain: d
descriptors:
  - {key: wide, rate_limit: {unit: hour, requests_per_unit: 100}}
  - {key: tight, rate_limit: {unit: hour, requests_per_unit: 1}}
`)
		mode = rueidis.ClientModeStandalone
		ask := func() string { return summary(s.ShouldRateLimit(t.Context(), request(t, "d | wide | tight"))) }
		assert.Equal(t, "OK | OK 99/100 hour 3600s | OK 0/1 hour 3600s", ask())
		for range 5 {
			assert.Equal(t, "OVER | OK 99/100 hour 3600s | OVER 0/1 hour 3600s", ask())
		}
	})
}

// More limits than one call decides, each of them five times.
func TestShouldRateLimit_EqualDescriptors_CountInOrder(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := newServer(t, client, "domain: x\ndescriptors:\n  - {key: k, rate_limit: {unit: year, requests_per_unit: 5}}\n")
	text := "x"
	for i := range 125 {
		text += fmt.Sprintf(" | k=%d", i%25)
	}
	answer, err := s.ShouldRateLimit(t.Context(), request(t, text))
	require.NoError(t, err)
	for i, one := range answer.GetStatuses() {
		require.EqualValues(t, 4-i/25, one.GetLimitRemaining(), "descriptor %d", i)
	}
}

func TestShouldRateLimit_NoDeadline_IsHalfASecond(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, simple, func(c *rls.Config) { c.Deadline = 0 })
		f.Latency.Store(int64(time.Minute))
		begin := time.Now()
		_, err := s.ShouldRateLimit(context.Background(), request(t, "shop | user=ann"))
		assert.ErrorContains(t, err, "rls: Redis did not answer within 500ms")
		assert.Equal(t, 500*time.Millisecond, time.Since(begin))
		f.Latency.Store(0)
		time.Sleep(2 * time.Minute)
	})
}

// Descriptors of different costs are decided one after another. If one call fails, the permits of
// those before it return.
func TestShouldRateLimit_SeveralCalls_ShareTheDeadline(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, simple, func(c *rls.Config) { c.Deadline = 100 * time.Millisecond })
		f.Latency.Store(int64(60 * time.Millisecond))
		begin := time.Now()
		_, err := s.ShouldRateLimit(context.Background(), request(t, "shop | user=bob +2 | user=ann"))
		assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		assert.Equal(t, 100*time.Millisecond, time.Since(begin))
		time.Sleep(time.Second)
		f.Latency.Store(0)
		assert.Equal(t, "OK | OK 2/2 hour 3599s | OK 2/2 hour 3599s",
			summary(s.ShouldRateLimit(context.Background(), request(t, "shop | user=ann +0 | user=bob +0"))))
	})
}

// TestShouldRateLimit_OutageAndManyHits_IsUnavailable: hits above a limit that Redis would accept.
func TestShouldRateLimit_OutageAndManyHits_IsUnavailable(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		s := newServer(t, client, `
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: two, limits: [{unit: hour, requests_per_unit: 2}, {unit: day, requests_per_unit: 2}]}
  - {key: over, overdraw: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: both, overdraw: true, limits: [{unit: hour, requests_per_unit: 2}, {unit: day, requests_per_unit: 2}]}
`)
		f.Redis.SetError("LOADING")
		for _, ask := range []string{"user -3", "two -3", "over +3", "both +3", "user", "user +0"} {
			for range 2 {
				_, err := s.ShouldRateLimit(context.Background(), request(t, "shop | "+ask))
				assert.Equal(t, codes.Unavailable, status.Code(err), "%s: %v", ask, err)
				assert.NotContains(t, fmt.Sprint(err), "exceed", ask)
			}
		}
		f.Redis.SetError("")
		time.Sleep(time.Minute)
	})
}

func TestShouldRateLimit_Canceled_EndsAtOnce(t *testing.T) {
	client, _ := guardtest.Connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newServer(t, client, simple).ShouldRateLimit(ctx, request(t, "shop | user=ann"))
	assert.Equal(t, codes.Canceled, status.Code(err))
}

// TestLog_Debug_HasTheLimitsOfEachDescriptor, and says nothing above that level.
func TestLog_Debug_HasTheLimitsOfEachDescriptor(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelInfo: "",
		slog.LevelDebug: `level=DEBUG msg="rls: request" domain=shop ` +
			`descriptors="[user=ann [unit=HOUR requests_per_unit=2] OK other=x y=z [] OK]" error=<nil>` + "\n" +
			`level=DEBUG msg="rls: request" domain=none descriptors="[a=b [] OK]" error=<nil>` + "\n" +
			`level=DEBUG msg="rls: request" domain="" descriptors="[a=b ]" ` +
			`error="rpc error: code = InvalidArgument desc = rls: the request has no domain"` + "\n",
	} {
		var log bytes.Buffer
		client, _ := guardtest.Connect(t)
		s := newServer(t, client, simple, func(c *rls.Config) {
			noTime := func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}
			c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level, ReplaceAttr: noTime}))
		})
		log.Reset()
		for _, ask := range []string{"shop | user=ann | other=x y=z", "none | a=b", "- | a=b"} {
			_, _ = s.ShouldRateLimit(t.Context(), request(t, ask))
		}
		assert.Equal(t, want, log.String())
	}
}

// A corrupt key fails some requests while Redis answers others. An outage has another message.
func TestLog_SomeRequestsFail_IsWrittenOnce(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		var log bytes.Buffer
		s := newServer(t, client, simple,
			func(c *rls.Config) { c.Log, c.Deadline = slog.New(slog.NewTextHandler(&log, nil)), 50*time.Millisecond })
		ask := func(user string) codes.Code {
			_, err := s.ShouldRateLimit(context.Background(), request(t, "shop | user="+user))
			return status.Code(err)
		}
		require.Equal(t, codes.OK, ask("ann"))
		key := f.Redis.Keys()[0]
		require.NoError(t, f.Conn.Do(t.Context(), f.Conn.B().Set().Key(key).Value("hello").Build()).Error())
		for range 3 {
			require.Equal(t, codes.Unavailable, ask("ann"))
			require.Equal(t, codes.OK, ask("bob"))
			time.Sleep(time.Second)
		}
		const some = "rls: requests end with an error, while Redis answers others"
		assert.Equal(t, 1, strings.Count(log.String(), some), log.String())
		assert.Contains(t, log.String(), key)
		assert.Contains(t, log.String(), "delete it")

		log.Reset()
		time.Sleep(time.Minute)
		f.Latency.Store(int64(3 * time.Second))
		for range 3 {
			require.Equal(t, codes.Unavailable, ask("bob"))
		}
		f.Latency.Store(0)
		time.Sleep(10 * time.Second) // replies under way arrive
		synctest.Wait()              // the end of the outage is logged in the background
		require.Equal(t, codes.OK, ask("bob"))
		assert.NotContains(t, log.String(), some)
		assert.Equal(t, 1, strings.Count(log.String(), "Redis does not answer, requests end with an error"))
	})
}
