package sequences_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

const (
	driftInterval = time.Hour
	driftStep     = driftInterval / 40 // between the calls of a busy limiter
)

// drift is one limiter that another client changes at the host's time, so that its value and grants
// do not match. The Go Clients that make all other calls have a settable clock, so that hours pass
// at once.
type drift struct {
	clients []*rratelimiter.Client
	offset  atomic.Int64 // nanoseconds from the host's clock
	name    string
	taken   []ledger.Grant
}

func (d *drift) now() time.Time { return time.Now().Add(time.Duration(d.offset.Load())) }

// connect makes new Clients.
func (d *drift) connect(r *run, prefetches bool) {
	clock := rratelimiter.WithClock(d.now)
	d.clients = []*rratelimiter.Client{rratelimiter.New(r.redis, clock)}
	if prefetches {
		d.clients = append(d.clients, rratelimiter.New(r.redis, clock, rratelimiter.WithPrefetch(time.Second)))
	}
}

// take advances the clock by a step and requests up to most permits, one by one and by each Client
// in turn. It ends after some denials. Counts of drift end before the clock advances.
func (d *drift) take(t *testing.T, most int) {
	t.Helper()
	d.offset.Add(int64(driftStep))
	denied := 0
	for n := 0; n < most && denied < 4; n++ {
		start := d.now()
		ok, err := d.clients[n%len(d.clients)].Limiter(d.name).TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		if !ok {
			denied++
			continue
		}
		d.taken = append(d.taken, ledger.Grant{Start: start, End: d.now(), Permits: 1})
	}
	for _, c := range d.clients {
		require.NoError(t, c.Flush(t.Context()))
	}
}

// Java changes a busy limiter, so that the value and the grants may not match. After that, only Go
// calls it. Every window that begins an interval later holds at most the rate, and in every such
// window the rate can be taken.
func TestDrift_EachChange_IsCorrected(t *testing.T) {
	eachRelease(t, func(t *testing.T, r *run) {
		for _, change := range driftChanges() {
			t.Run(change.name, func(t *testing.T) {
				r.requireCorrection(t, change)
			})
		}
	})
}

// driftChange is a change of a busy limiter that leaves drift.
type driftChange struct {
	name        string
	kind        rratelimiter.RateType
	rate, after int64 // before and after the change
	prefetches  bool
	make        func(ctx context.Context, r *run, change driftChange, name string) error
}

func driftChanges() []driftChange {
	const overall, perClient = rratelimiter.Overall, rratelimiter.PerClient
	type makes = func(ctx context.Context, r *run, change driftChange, name string) error
	release := func(permits int64) makes {
		return func(ctx context.Context, r *run, _ driftChange, name string) error {
			return r.java.Limiter(name).Release(ctx, permits)
		}
	}
	ofMain := func(permits int64) makes {
		return func(ctx context.Context, r *run, _ driftChange, name string) error {
			_, err := mainBranch{redis: r.redis, keys: state.KeysOf(name, r.java.ID())}.release(ctx, permits)
			return err
		}
	}
	each := func(all ...makes) makes {
		return func(ctx context.Context, r *run, change driftChange, name string) error {
			for _, one := range all {
				if err := one(ctx, r, change, name); err != nil {
					return err
				}
			}
			return nil
		}
	}
	sets := func(ctx context.Context, r *run, change driftChange, name string) error {
		return r.java.Limiter(name).SetRate(ctx, change.javaRate())
	}
	keeps := func(ctx context.Context, r *run, change driftChange, name string) error {
		return r.java.Limiter(name).SetRateArgs(ctx, change.javaRate(), true)
	}
	return []driftChange{
		{"Java releases", overall, 100, 100, false, release(100)},
		{"Java releases a part", overall, 100, 100, false, release(30)},
		{"Java releases, one of two Clients prefetches", overall, 100, 100, true, release(100)},
		{"Java of the main branch releases", overall, 100, 100, false, ofMain(100)},
		{"Java of the main branch releases a part", overall, 100, 100, false, ofMain(30)},
		{"Java of the main branch releases, one of two Clients prefetches", overall, 100, 100, true, ofMain(100)},
		{"both release", overall, 100, 100, false, each(ofMain(20), release(30), ofMain(20), release(10))},
		{"both release, one of two Clients prefetches", overall, 100, 100, true, each(release(30), ofMain(50))},
		{"Java lowers the rate and keeps the state", overall, 100, 10, false, keeps},
		{"Java raises a rate of a thousand and keeps the state", overall, 1000, 1500, false, keeps},
		{"Java lowers a rate per client", perClient, 100, 10, false, sets},
		{"Java raises a rate per client and keeps the state", perClient, 10, 100, false, keeps},
	}
}

// javaRate returns the rate after the change.
func (c driftChange) javaRate() oracle.Rate {
	rate := oracle.Rate{Type: oracle.Overall, Permits: c.after, Interval: driftInterval}
	if c.kind == rratelimiter.PerClient {
		rate.Type = oracle.PerClient
	}
	return rate
}

// requireCorrection makes a limiter busy, changes it, and checks the windows after that.
func (r *run) requireCorrection(t *testing.T, change driftChange) {
	t.Helper()
	d := &drift{name: "drift of " + r.version}
	d.offset.Store(int64(-driftInterval - driftStep))
	longest := driftInterval + driftStep // that a permit stays taken
	if change.prefetches {
		longest += time.Second
	}
	d.connect(r, change.prefetches)
	require.NoError(t, d.clients[0].Limiter(d.name).SetRate(t.Context(),
		rratelimiter.Rate{Type: change.kind, Permits: change.rate, Interval: driftInterval}))
	for d.offset.Load() < int64(-driftStep) {
		d.take(t, int(change.rate)/20)
	}
	d.offset.Store(0)
	err := change.make(t.Context(), r, change, d.name)
	if errors.Is(err, oracle.ErrUnsupported) {
		require.NotEqual(t, "4.7.0", r.version)
		t.Logf("Redisson %s has no such call: nothing was tested", r.version)
		return
	}
	require.NoError(t, err)
	config, err := d.clients[0].Limiter(d.name).Config(t.Context())
	require.NoError(t, err)
	require.Equal(t, change.after, config.Permits)

	d.taken = nil
	d.connect(r, change.prefetches) // new Clients count at once, others after half an interval of the process
	first := time.Now().Add(driftInterval)
	for d.offset.Load() <= int64(5*driftInterval) {
		d.take(t, int(change.after)*2)
	}
	d.check(t, first, longest, change.after)
	_, err = d.clients[0].Limiter(d.name).Delete(t.Context())
	require.NoError(t, err)
}

// check requires at most rate permits in every interval from first on, and at least rate in every
// longer period.
func (d *drift) check(t *testing.T, first time.Time, longer time.Duration, rate int64) {
	t.Helper()
	var from []ledger.Grant
	for _, g := range d.taken {
		if !g.Start.Before(first) {
			from = append(from, g)
		}
	}
	require.LessOrEqual(t, ledger.Worst(from, driftInterval).Permits, rate, "a window holds more than the rate")
	for begin := first; begin.Before(first.Add(2 * driftInterval)); begin = begin.Add(driftStep) {
		sum := int64(0)
		for _, g := range from {
			if !g.Start.Before(begin) && g.Start.Before(begin.Add(longer+driftStep)) {
				sum += g.Permits
			}
		}
		require.GreaterOrEqual(t, sum, rate, "permits are lost, %v after the first window began", begin.Sub(first))
	}
}
