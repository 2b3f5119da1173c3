package engine

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestQueue_ForecastLags_WaiterAsksLater: unless a deadline is near.
func TestQueue_ForecastLags_WaiterAsksLater(t *testing.T) {
	const every, lag = 600 * time.Millisecond, 20 * time.Millisecond
	for name, test := range map[string]struct {
		lag, latency, timeout time.Duration // of the waiter
		behind                time.Duration // the timeout of another one
		others                int           // that wait between them
		want                  time.Duration
	}{
		"on time":                       {want: every},
		"later":                         {lag: lag, want: every + lag},
		"a deadline is far":             {lag: lag, timeout: every + 2*lag, want: every + lag},
		"a deadline is near":            {lag: lag, timeout: every + lag, want: every},
		"a deadline before the reply":   {lag: lag, latency: lag, timeout: every + 2*lag, want: every},
		"a deadline behind it":          {lag: lag, behind: every + 11*time.Millisecond, want: every},
		"a deadline behind all":         {lag: lag, behind: 3 * every, want: every + lag},
		"one in the next round":         {lag: lag, behind: 2*every + 2*time.Millisecond, want: every, others: 1},
		"a later one in the next round": {lag: lag, behind: 2*every + 2*lag, want: every + lag, others: 1},
	} {
		withServer(t, func(t *testing.T, f *fixture) {
			l := open(f.engine(), "limiter", 2, every)
			l.lag = test.lag
			f.RequireGranted(l, 2)
			began := time.Now()
			f.Latency.Store(int64(test.latency))
			wait := func(timeout time.Duration, served func()) {
				var deadline time.Time
				if timeout > 0 {
					deadline = began.Add(timeout)
				}
				ok, err := l.Wait(t.Context(), 1, deadline)
				assert.NoError(t, err, name)
				assert.True(t, ok, name)
				served()
			}
			if test.behind > 0 {
				go func() {
					time.Sleep(time.Millisecond)
					for range test.others {
						go wait(0, func() {})
						time.Sleep(time.Millisecond)
					}
					wait(test.behind, func() {})
				}()
			}
			wait(test.timeout, func() { assert.Equal(t, test.want+test.latency, time.Since(began), name) })
			time.Sleep(3 * every)
		})
	}
}

// waitAll has so many callers wait for a permit each.
func (f *fixture) waitAll(l *fake, callers int) {
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			ok, err := l.Wait(f.Context(), 1, time.Time{})
			assert.NoError(f, err)
			assert.True(f, ok)
		})
	}
	all.Wait()
}

// TestQueue_LimiterExpires_WaitersRenewIt: they ask before, although they are denied.
func TestQueue_LimiterExpires_WaitersRenewIt(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := open(f.engine(), "limiter", 1, 10*time.Second)
		l.renew = 3 * time.Second
		f.RequireGranted(l, 1)
		before := f.Scripts.Load()
		f.waitAll(l, 1)
		assert.Equal(t, before+5, f.Scripts.Load(), "calls at 0 s, 3 s, 6 s, 9 s and 10 s")
	})
}

// TestDenial_LimiterExpires_RedisIsAskedOften: a denial from memory does not renew it.
func TestDenial_LimiterExpires_RedisIsAskedOften(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		g := New(Settings{Redis: f.Conn, Denials: time.Hour})
		l := open(g, "limiter", 1, time.Minute)
		l.renew = 24 * time.Second
		f.RequireGranted(l, 1)
		var asked []int64
		for range 8 {
			before := f.Scripts.Load()
			f.RequireDenied(l, 1)
			asked = append(asked, f.Scripts.Load()-before)
			time.Sleep(time.Second)
		}
		assert.Equal(t, []int64{1, 0, 0, 1, 0, 0, 1, 0}, asked)
	})
}

// TestDenial_TimeoutIsTooShort_AnsweredFromMemory: as a request without a timeout.
func TestDenial_TimeoutIsTooShort_AnsweredFromMemory(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		g := New(Settings{Redis: f.Conn, Denials: 10 * time.Second})
		l := open(g, "limiter", 2, time.Minute)
		f.RequireGranted(l, 2)
		within := func(permits int64, timeout time.Duration) (calls int64) {
			before := f.Scripts.Load()
			ok, err := l.Wait(t.Context(), permits, time.Now().Add(timeout))
			assert.NoError(t, err)
			assert.False(t, ok)
			return f.Scripts.Load() - before
		}
		assert.EqualValues(t, 1, within(1, time.Second), "nothing is known")
		for range 100 {
			assert.Zero(t, within(1, time.Second))
			assert.Zero(t, within(2, 59*time.Second))
		}
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 1, within(1, time.Second), "it is too old")
		assert.NoError(t, l.Release(t.Context(), 1))
		ok, err := l.Wait(t.Context(), 1, time.Now().Add(time.Second))
		assert.NoError(t, err)
		assert.True(t, ok, "this Client has released")
	})
}

// TestQueue_FreePermits_DoNotLag: only a waiter that has waited for permits asks later.
func TestQueue_FreePermits_DoNotLag(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := open(f.engine(), "limiter", 2*MaxRequests, time.Second)
		l.lag = time.Hour
		began := time.Now()
		f.waitAll(l, MaxRequests+1)
		assert.Zero(t, time.Since(began))
	})
}
