package limit

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// windowsOfAnHour are a policy of each kind whose state is a number and an expiry. The clocks of the tests begin
// within them.
var windowsOfAnHour = []Policy{FixedWindow{10, time.Hour, false}, FixedWindow{10, time.Hour, true},
	Calendar{10, Day, nil}}

// counter returns the state of a window, "" and 0 without one.
func (f *clocked) counter(l *Limiter) (text string, expiry time.Duration) {
	text, _ = f.redis.Get(l.protocol.keys[0])
	return text, f.redis.TTL(l.protocol.keys[0])
}

// TestWindow_State_IsANumberAndAnExpiry, as INCREX of Redis 8.8 leaves it. Calls change it as INCRBY does.
func TestWindow_State_IsANumberAndAnExpiry(t *testing.T) {
	for _, p := range windowsOfAnHour {
		f, l := clockedLimiter(t, p)
		require.True(t, redistest.Result(t, l.TryAcquire, 3), "%+v", p)
		text, ends := f.counter(l)
		assert.Equal(t, "3", text)
		assert.Positive(t, ends)
		f.advance(time.Minute)
		require.True(t, redistest.Result(t, l.TryAcquire, 4))
		require.False(t, redistest.Result(t, l.TryAcquire, 4))
		redistest.Result(t, l.Charge, 5)
		require.NoError(t, l.Release(t.Context(), 2))
		text, later := f.counter(l)
		assert.Equal(t, "10", text)
		assert.Equal(t, ends-time.Minute, later, "%+v: the first call sets the end", p)
		before := f.redis.Dump()
		assert.Equal(t, ends-time.Minute, redistest.Result(t, l.Take, 1).RetryAfter)
		redistest.Peek(t, l)
		assert.Equal(t, before, f.redis.Dump(), "a denial writes nothing")

		_, err := f.redis.Incr(l.protocol.keys[0], -3) // another program returns permits
		require.NoError(t, err)
		assert.EqualValues(t, 3, redistest.Peek(t, l)[0].Remaining)
		require.NoError(t, l.Release(t.Context(), 100))
		assert.Empty(t, f.redis.Keys(), "nothing is taken")
		require.NoError(t, l.Release(t.Context(), 100))
		assert.Empty(t, f.redis.Keys(), "a release makes no key")
	}
}

// TestWindow_KeyWithoutExpiry_GetsOneWithin64Denials: another program has left it.
func TestWindow_KeyWithoutExpiry_GetsOneWithin64Denials(t *testing.T) {
	for _, p := range windowsOfAnHour {
		for name, deny := range map[string]func(l *Limiter) bool{
			"TryAcquire": func(l *Limiter) bool { return redistest.Result(t, l.TryAcquire, 1) },
			"Take":       func(l *Limiter) bool { return redistest.Result(t, l.Take, 1).Allowed },
		} {
			f, l := clockedLimiter(t, p)
			require.NoError(t, f.redis.Set(l.protocol.keys[0], "10"))
			assert.Positive(t, redistest.Peek(t, l)[0].RetryAfter, "%+v", p)
			_, expiry := f.counter(l)
			require.Zero(t, expiry, "Peek changes nothing")
			denials := 0
			for ; expiry == 0 && denials < 100; denials++ {
				require.False(t, deny(New(f.client, "name", p)), "a limiter for each request")
				_, expiry = f.counter(l)
			}
			assert.LessOrEqual(t, denials, 64, "%s %+v", name, p)
			if name == "Take" {
				assert.Equal(t, 1, denials)
			}
			f.advance(expiry)
			assert.True(t, redistest.Result(t, l.TryAcquire, 10))
		}
	}
}

// TestWindow_LargeCounts_StayBelow2To53: of permits and of debts.
func TestWindow_LargeCounts_StayBelow2To53(t *testing.T) {
	const most = maxPermits
	for _, p := range []Policy{FixedWindow{most, time.Hour, false}, FixedWindow{most, time.Hour, true},
		Calendar{most, Day, nil}} {
		f, l := clockedLimiter(t, p)
		require.NoError(t, f.redis.Set(l.protocol.keys[0], strconv.FormatInt(most-3, 10)))
		f.redis.SetTTL(l.protocol.keys[0], time.Hour)
		assert.False(t, redistest.Result(t, l.TryAcquire, 4))
		assert.EqualValues(t, 1, redistest.Result(t, l.Take, 2).Remaining)
		assert.True(t, redistest.Result(t, l.TryAcquire, 1))
		assert.False(t, redistest.Result(t, l.TryAcquire, 1))
		for range 3 {
			assert.Zero(t, redistest.Result(t, l.Charge, most).Remaining)
			text, _ := f.counter(l)
			assert.Equal(t, strconv.FormatInt(most, 10), text)
		}
		require.NoError(t, l.Release(t.Context(), most-1))
		text, _ := f.counter(l)
		assert.Equal(t, "1", text)
		require.NoError(t, f.redis.Set(l.protocol.keys[0], "9999999999999999"))
		assert.False(t, redistest.Result(t, l.TryAcquire, 1))
		redistest.Result(t, l.Charge, 5)
		text, _ = f.counter(l)
		assert.Equal(t, "9999999999999999", text, "another program's count is no lower after a charge")
	}
}

// TestWindow_LessThanAMillisecondIsLeft_IsReportedAsOne: waiters would ask again at once.
func TestWindow_LessThanAMillisecondIsLeft_IsReportedAsOne(t *testing.T) {
	for _, p := range windowsOfAnHour {
		f, l := clockedLimiter(t, p)
		d := redistest.Result(t, l.Take, 10)
		f.advance(d.ResetAfter - time.Microsecond)
		for _, d := range []rratelimiter.Decision{redistest.Result(t, l.Take, 1), redistest.Peek(t, l)[0]} {
			assert.Equal(t, time.Millisecond, d.RetryAfter, "%+v", p)
			assert.Equal(t, time.Millisecond, d.ResetAfter)
		}
	}
}

// windowGrant is a grant in a run of TestWindow_RandomCalls_NeverAboveTheLimit.
type windowGrant struct {
	grant
	window  int // the number of its window
	permits int64
}

// TestWindow_RandomCalls_NeverAboveTheLimit: clients with clocks that differ and jump take, charge, release and
// refund, now or windows later, in parts or twice. Meanwhile the limit changes, and keys are reset, evicted or
// lose their expiry. No window grants more than its limit, a refund goes to the window of its grant, and no window
// is shorter than the policy's.
func TestWindow_RandomCalls_NeverAboveTheLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy func(permits int64) Policy
		length time.Duration // the shortest; 0 if a window may begin at any time of its unit
	}{
		{func(n int64) Policy { return FixedWindow{n, time.Second, false} }, time.Second},
		{func(n int64) Policy { return FixedWindow{n, time.Second, true} }, 0},
		{func(n int64) Policy { return Calendar{n, Day, nil} }, 0},
	} {
		count := make(map[string]int)
		for seed := range uint64(redistest.Deep(4, 40)) {
			r := &windowRun{clocked: newClocked(t), random: rand.New(rand.NewPCG(seed, 3)), count: count,
				ends: test.length == 0, unit: int64(1e6)}
			if _, isCalendar := test.policy(1).(Calendar); isCalendar {
				r.unit = 24 * 3600 * 1e6
			}
			r.back = true
			r.run(test.policy, fmt.Sprintf("%+v, seed %d", test.policy(1), seed))
		}
		for _, kind := range []string{"granted", "denied", "refunded", "late refund", "window"} {
			assert.Greater(t, count[kind], 20, "%s of %+v", kind, test.policy(1))
		}
	}
}

type windowRun struct {
	*clocked
	random *rand.Rand
	count  map[string]int
	ends   bool  // windows end at multiples of unit, in microseconds
	unit   int64 // of the policy

	window int   // the number of the current one
	end    int64 // of it, by the clock of Redis; 0 without one
	taken  int64 // in it
	all    []*windowGrant
}

func (r *windowRun) run(policy func(permits int64) Policy, about string) {
	limits := [2]int64{10, 6}
	limiters := [2]*Limiter{New(r.client, "name", policy(limits[0])), New(r.client, "name", policy(limits[1]))}
	offsets := []int64{0, 300_000, -200_000}
	for step := range 300 {
		passed := r.random.Int64N(1+r.random.Int64N(r.unit/3)) / 1000 * 1000
		r.pass(micros(passed))
		caller := r.random.IntN(len(offsets))
		if r.random.IntN(30) == 0 {
			offsets[caller] = r.random.Int64N(4*r.unit) - 2*r.unit
		}
		r.setClock(r.server + offsets[caller])
		if r.end > 0 && r.server >= r.end {
			r.end, r.taken = 0, 0
		}
		at := 0
		if r.random.IntN(8) == 0 {
			at = 1
		}
		what := r.step(limiters[at], limits[at])
		about := fmt.Sprintf("%s, step %d at %d: %s", about, step, r.server-begin, what)
		text, expiry := r.counter(limiters[0])
		if r.taken == 0 {
			require.Empty(r, text, about)
			continue
		}
		require.Equal(r, strconv.FormatInt(r.taken, 10), text, about)
		require.Equal(r, r.end-r.server, expiry.Microseconds(), about)
	}
}

// begins counts a new window, if none is open.
func (r *windowRun) begins() {
	if r.taken > 0 {
		return
	}
	r.window++
	r.count["window"]++
	if r.end = r.server + r.unit; r.ends {
		r.end -= (r.server - r.server%1000) % r.unit
	}
}

func (r *windowRun) step(l *Limiter, limit int64) string {
	n := 1 + r.random.Int64N(5)
	switch kind := r.random.IntN(30); {
	case kind == 0 && !r.ends: // in an aligned one, refunds of grants before a Reset count
		require.NoError(r, l.Reset(r.Context()))
		r.end, r.taken = 0, 0
		r.pass(2 * time.Millisecond)
		return "Reset"
	case kind == 1 && !r.ends:
		r.redis.FlushAll()
		r.end, r.taken = 0, 0
		r.pass(2 * time.Millisecond)
		return "eviction"
	case kind == 2:
		r.begins()
		r.taken += n
		redistest.Result(r, l.Charge, n)
		return fmt.Sprint("Charge ", n)
	case kind < 10 && len(r.all) > 0:
		g := r.all[max(r.random.IntN(len(r.all)), r.random.IntN(len(r.all)))]
		n = min(n, max(1, g.permits))
		if n > g.permits { // it was refunded already: a call of Settle is made once
			return "nothing to refund"
		}
		g.permits -= n
		if g.window == r.window && r.taken > 0 {
			r.taken = max(0, r.taken-n)
			r.count["refunded"]++
		} else {
			r.count["late refund"]++
		}
		require.NoError(r, l.protocol.refund(r.Context(), n, g.grant))
		return fmt.Sprintf("refund %d of window %d in %d", n, g.window, r.window)
	}
	batch := r.ask(l, engine.Ask{Permits: n, Detail: r.random.IntN(2) == 0})
	allowed := batch.Requests[0].Allowed
	require.Equal(r, r.taken+n <= limit, allowed, "%d of %d and %d", n, r.taken, limit)
	if !allowed {
		r.count["denied"]++
		return fmt.Sprint("denied ", n)
	}
	r.count["granted"]++
	r.begins()
	r.taken += n
	r.all = append(r.all, &windowGrant{r.grantOf(l, batch), r.window, n})
	return fmt.Sprint("Take ", n)
}
