package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// change is a change of limiters by this client, without a call to Redis.
func change(ctx context.Context, g *Engine, subjects ...string) {
	_, _ = ChangeLimiters(ctx, g, subjects, func(context.Context) (any, error) { return nil, nil })
}

// shareACounter reports whether a change of one key ends the denials of another.
func shareACounter(g *Engine, keys ...string) bool {
	counters := make(map[*keyChanges]bool)
	for _, key := range keys {
		counters[g.changes.changesOf(key)] = true
	}
	return len(counters) < len(keys)
}

func TestDenials_AnyKeyChanges_DenialEnds(t *testing.T) {
	for name, test := range map[string]struct {
		changed string
		want    []bool // whether both, a and b are denied still
	}{
		"its own":                 {"a", []bool{false, false, true}},
		"another's":               {"b", []bool{false, true, false}},
		"its ID, which is no key": {"both", []bool{true, true, true}},
		"none":                    {"c", []bool{true, true, true}},
	} {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			g := New(Settings{Redis: f.Conn, Denials: time.Hour})
			for shareACounter(g, "both", "a", "b", "c") { // by a hash with a random seed
				g = New(Settings{Redis: f.Conn, Denials: time.Hour})
			}
			limiters := []*fake{open(g, "both", 10, time.Hour), open(g, "a", 10, time.Hour), open(g, "b", 10, time.Hour)}
			limiters[0].DependsOn = []string{"a", "b"}
			for _, l := range limiters {
				f.RequireGranted(l, 10) // a grant ends denials, too
			}
			for _, l := range limiters {
				f.RequireDenied(l, 1)
				synctest.Wait()
			}
			change(t.Context(), g, test.changed)
			for i, l := range limiters {
				assert.Equal(t, test.want[i], denies(&l.Limiter), l.ID)
			}
			change(t.Context(), g, "a", "b")
			synctest.Wait()

			// A denial is not stored if its limiter changed during the call.
			f.Latency.Store(int64(100 * time.Millisecond))
			time.AfterFunc(50*time.Millisecond, func() { change(t.Context(), g, "b") })
			f.RequireDenied(limiters[0], 1)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			assert.False(t, denies(&limiters[0].Limiter))
		})
	}
}

// TestDenials_GrantOnASharedKey_EndsThem: they count permits that were free before.
func TestDenials_GrantOnASharedKey_EndsThem(t *testing.T) {
	for _, way := range ways {
		runWithServer(t, way.name, func(t *testing.T, f *fixture) {
			g := New(Settings{Redis: f.Conn, Denials: time.Hour})
			both, a := open(g, "both", 10, time.Hour), open(g, "a", 10, time.Hour)
			both.DependsOn = []string{"a", "b"}
			f.RequireGranted(both, 10)
			f.RequireDenied(both, 1)
			synctest.Wait()
			require.True(t, denies(&both.Limiter))
			require.NoError(t, way.call(t.Context(), a, 1))
			assert.False(t, denies(&both.Limiter))
		})
	}
}

// TestDenials_CallGrantsAndDenies_DenialIsStored: it counts the grants of its own call.
func TestDenials_CallGrantsAndDenies_DenialIsStored(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Denials: time.Hour}, 10, time.Hour)
		f.RequireGranted(l, 7)
		f.Latency.Store(int64(10 * time.Millisecond))
		answers, _ := redistest.Crowd(5, func(i int) (Result, error) {
			// The calls of the first three are in flight while the others arrive.
			return l.Take(t.Context(), []int64{11, 11, 11, 2, 3}[i])
		})
		require.True(t, answers[3].Allowed)
		require.False(t, answers[4].Allowed)
		time.Sleep(time.Second)
		d := redistest.Result(t, l.Take, 3)
		assert.Equal(t, FromMemory, d.From)
		assert.EqualValues(t, 1, d.Remaining)
	})
}

// TestDenial_TimeoutIsTooShort_AnsweredFromMemory: as a request without a timeout.
func TestDenial_TimeoutIsTooShort_AnsweredFromMemory(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Denials: 10 * time.Second}, 2, time.Minute)
		f.RequireGranted(l, 2)
		within := func(permits int64, timeout time.Duration) (calls int64) {
			before := f.Scripts.Load()
			f.RequireFalse(l.TryAcquireWithin(t.Context(), permits, timeout))
			return f.Scripts.Load() - before
		}
		assert.EqualValues(t, 1, within(1, time.Second), "nothing is known")
		for range 100 {
			assert.Zero(t, within(1, time.Second))
			assert.Zero(t, within(2, 59*time.Second))
		}
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 1, within(1, time.Second), "it is too old")
		time.Sleep(5 * time.Second)
		f.RequireTrue(l.TryAcquireWithin(t.Context(), 2, 46*time.Second)) // they return a second before
		assert.EqualValues(t, 1, within(1, time.Second))
		assert.NoError(t, l.Release(t.Context(), 1))
		f.RequireTrue(l.TryAcquireWithin(t.Context(), 1, time.Second)) // this Client has released
	})
}
