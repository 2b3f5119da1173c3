package engine

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cached returns how many denials are remembered.
func (a *denials) cached() (n int) {
	for i := range a.slots {
		for place := range a.slots[i] {
			if a.slots[i][place].Load() != nil {
				n++
			}
		}
	}
	return n
}

// denies reports whether the denial cache denies a permit.
func denies(l *Limiter) bool {
	_, denied := l.denyFromMemory(Ask{Permits: 1})
	return denied
}

// deniedNow is a reply of now that denies so many permits for a time.
func deniedNow(g *Engine, permits int64, after time.Duration) *Batch {
	k := reported(&view{limit: 10, after: after})
	k.Denied = permits
	if now := g.Now(); !now.IsZero() {
		k.dated = time.UnixMilli(now.UnixMilli())
	}
	return &Batch{BatchResult: BatchResult{knowledge: k}}
}

// At the end of a denial, and for permits that it does not cover, Redis is asked.
func TestDenial_Request_AnsweredWhereTheDenialCoversIt(t *testing.T) {
	for name, test := range map[string]struct {
		limit, fewest int64
		free          int64
		since         time.Duration
		ask           Ask
		want          time.Duration // RetryAfter; below 0 if Redis is asked
	}{
		"the fewest that were denied": {10, 2, 0, time.Second, Ask{Permits: 2}, time.Second},
		"fewer":                       {10, 2, 0, time.Second, Ask{Permits: 1}, -1},
		"more":                        {10, 2, 0, time.Second, Ask{Permits: 4}, time.Second},
		"of which nothing is known":   {10, 2, 8, time.Second, Ask{Permits: 8}, -1},
		"the limit":                   {7, 1, 0, time.Second, Ask{Permits: 7}, time.Second},
		"above the limit":             {6, 1, 0, time.Second, Ask{Permits: 7}, -1},
		"the last moment":             {10, 1, 0, 2*time.Second - 1, Ask{Permits: 1}, 1},
		"its end":                     {10, 1, 0, 2 * time.Second, Ask{Permits: 1}, -1},
		"each part":                   {10, 1, 0, time.Second, Ask{Permits: 1, Each: true}, time.Second},
	} {
		runInBubble(t, name, func(t *testing.T) {
			g := New(Settings{Denials: time.Hour})
			k := reported(&view{limit: test.limit, free: test.free, after: 2 * time.Second})
			k.Denied, k.dated = test.fewest, k.Sent.Round(0)
			g.denials.store(&denial{k, "a", 2 * time.Second, g.denials.maxAge}, time.Hour)
			time.Sleep(test.since)
			got, denied := named(g, "a").denyFromMemory(test.ask)
			require.Equal(t, test.want >= 0, denied)
			if !denied {
				return
			}
			assert.Equal(t, FromMemory, got.From)
			assert.Equal(t, Decision{Limit: test.limit, RetryAfter: test.want, ResetAfter: 2*time.Second - test.since},
				got.Decision)
			if !test.ask.Each {
				assert.Nil(t, got.Parts)
				return
			}
			// The other part's permits are free by now.
			assert.Equal(t, []Decision{got.Decision, {Allowed: true, Limit: 100}}, got.Parts)
		})
	}
}

// The limiter's clock determines when permits return. Both clocks bound the age.
func TestDenial_Clock_DeniesOnlyWhileNoPermitIsFreeByIt(t *testing.T) {
	const maxAge, until = 10 * time.Second, 5 * time.Second
	for name, test := range map[string]struct {
		passes time.Duration // on the process's clock
		moves  time.Duration // the limiter's clock, besides
		want   time.Duration // RetryAfter; 0 if Redis is asked
	}{
		"at once":                                  {0, 0, until},
		"the process's clock passes, both do":      {2 * time.Second, 0, until - 2*time.Second},
		"permits return":                           {until, 0, 0},
		"set ahead, before permits return":         {0, until - 1, 1},
		"set ahead, permits return":                {0, until, 0},
		"set ahead by hours":                       {0, 2 * time.Hour, 0},
		"set back, not behind the denial":          {3 * time.Second, -2 * time.Second, until - time.Second},
		"set back behind the denial":               {0, -time.Second, 0},
		"stands still while the process's passes":  {maxAge - 1, -(maxAge - 1), until},
		"stands still until the denial is too old": {maxAge, -maxAge, 0},
	} {
		runInBubble(t, name, func(t *testing.T) {
			var offset time.Duration
			g := New(Settings{Denials: maxAge, Now: func() time.Time { return time.Now().Add(offset) }})
			l := named(g, "a")
			g.denials.sweeping = true // no sweep is scheduled, which goes by the process's clock alone
			l.remember(deniedNow(g, 1, until))
			time.Sleep(test.passes)
			offset = test.moves
			got, denied := l.denyFromMemory(Ask{Permits: 1})
			assert.Equal(t, test.want > 0, denied)
			assert.Equal(t, test.want, got.RetryAfter)
			if !denied {
				offset = 0
				assert.False(t, denies(l), "a denial that has ended stays ended")
			}
		})
	}
}

// By the server's clock, which is read in whole milliseconds some time after the call left.
func TestDenial_ServerTime_EndsBeforeTheServerCouldGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Settings{Denials: time.Hour, ServerTime: true})
		l := named(g, "a")
		b := deniedNow(g, 1, time.Second)
		time.Sleep(100 * time.Millisecond) // the reply is on its way
		l.remember(b)
		time.Sleep(time.Second - 102*time.Millisecond)
		got, denied := l.denyFromMemory(Ask{Permits: 1})
		assert.True(t, denied)
		assert.Equal(t, time.Millisecond, got.RetryAfter)
		time.Sleep(time.Millisecond)
		assert.False(t, denies(l))
	})
}

// TestDenials_SlotsAreTaken_OldestLeaves: few IDs have the same slots.
func TestDenials_SlotsAreTaken_OldestLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Settings{Denials: time.Hour})
		var ids []string
		for i := 0; len(ids) <= sameHash; i++ {
			if id := strconv.Itoa(i); g.denials.slotsOf(id) == g.denials.slotsOf("0") {
				ids = append(ids, id)
			}
		}
		remember := func(id string, after time.Duration) {
			b := deniedNow(g, 1, after)
			b.version = g.changes.versionOf([]string{id})
			named(g, id).remember(b)
			time.Sleep(time.Millisecond)
		}
		for _, id := range ids[:sameHash] {
			remember(id, 10*time.Second)
		}
		remember(ids[1], 20*time.Second) // one of them again
		denied := func() (all []bool) {
			for _, id := range ids {
				all = append(all, denies(named(g, id)))
			}
			return all
		}
		assert.Equal(t, []bool{true, true, true, true, false}, denied())
		remember(ids[sameHash], 10*time.Second)
		assert.Equal(t, []bool{false, true, true, true, true}, denied())

		time.Sleep(10*time.Second + sweepEvery)
		synctest.Wait()
		assert.Equal(t, 1, g.denials.cached(), "all others have ended")
		time.Sleep(10*time.Second + sweepEvery)
		synctest.Wait()
		assert.Zero(t, g.denials.cached())
		assert.False(t, g.denials.sweeping)
	})
}

func TestDenials_Reply_KeptWhereItDeniesForAWhile(t *testing.T) {
	for name, reply := range map[string]knowledge{
		"no permits were denied":     {Forecast: &view{limit: 10, after: time.Second}},
		"a reply without a forecast": {Denied: 2},
		"the end is not known":       {Forecast: &view{limit: 10, free: 2, after: time.Second}, Denied: 2},
		"it has ended":               {Forecast: &view{limit: 10, after: 2 * time.Millisecond}, Denied: 2},
		"it is too old":              {Forecast: &view{limit: 10, after: time.Second}, Denied: 2},
	} {
		runInBubble(t, name, func(t *testing.T) {
			g := New(Settings{Denials: time.Hour})
			reply.Sent = time.Now()
			if name == "it is too old" {
				reply.Sent = time.Unix(0, 0)
			}
			reply.dated = reply.Sent.Round(0)
			time.Sleep(2 * time.Millisecond)
			named(g, "a").remember(&Batch{BatchResult: BatchResult{knowledge: reply}})
			assert.Nil(t, g.denials.get("a"))
		})
	}
	runInBubble(t, "an older reply arrives later", func(t *testing.T) {
		g := New(Settings{Denials: time.Hour})
		l := named(g, "a")
		older := deniedNow(g, 1, time.Minute)
		time.Sleep(time.Second)
		l.remember(deniedNow(g, 5, time.Minute))
		l.remember(older)
		assert.EqualValues(t, 5, g.denials.get("a").Denied)
		time.Sleep(time.Minute + sweepEvery)
	})
}
