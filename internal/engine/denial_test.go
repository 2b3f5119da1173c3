package engine

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// denialOf is what an engine remembers of an ID.
func denialOf(g *Engine, id string) *denial {
	found, ok := g.denials.byID.Load(id)
	if !ok {
		return nil
	}
	return found.(*denial)
}

// change is a change of limiters by this client, of which Redis is not asked.
func change(ctx context.Context, g *Engine, subjects ...string) {
	_, _ = Changing(ctx, g, subjects, func(context.Context) (any, error) { return nil, nil })
}

// TestWhatADenialAnswers, and what it does not: at its very end, and for permits of which it knows nothing, Redis is asked.
func TestWhatADenialAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		limit, fewest int64
		free          int64
		since         time.Duration
		ask           Ask
		want          time.Duration // RetryAfter; below 0 where Redis is asked
		unsure        bool          // whether this client has changed the limiter meanwhile
	}{
		"the fewest that were denied": {10, 2, 0, second, Ask{Permits: 2}, second, false},
		"fewer":                       {10, 2, 0, second, Ask{Permits: 1}, -1, false},
		"more":                        {10, 2, 0, second, Ask{Permits: 4}, second, false},
		"of which nothing is known":   {10, 2, 8, second, Ask{Permits: 8}, -1, false},
		"the limit":                   {7, 1, 0, second, Ask{Permits: 7}, second, false},
		"above the limit":             {6, 1, 0, second, Ask{Permits: 7}, -1, false},
		"the last moment":             {10, 1, 0, 2*second - 1, Ask{Permits: 1}, 1, false},
		"its end":                     {10, 1, 0, 2 * second, Ask{Permits: 1}, -1, false},
		"what each part says":         {10, 1, 0, second, Ask{Permits: 1, Each: true}, second, false},
		"while it is being kept":      {10, 1, 0, second, Ask{Permits: 1}, -1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := New(Settings{Denials: true})
				d := &denial{
					outlook: &view{limit: test.limit, free: test.free, after: 2 * second}, permits: test.fewest, until: 2 * second, asked: time.Now(),
				}
				d.holds.Store(!test.unsure)
				g.denials.byID.Store("a", d)
				pass(test.since)
				got, denied := named(g, "a").deny(test.ask)
				require.Equal(t, test.want >= 0, denied)
				if !denied {
					return
				}
				assert.Equal(t, FromMemory, got.From)
				assert.Equal(t, Answer{Limit: test.limit, RetryAfter: test.want, ResetAfter: 2*second - test.since}, got.Answer)
				if !test.ask.Each {
					assert.Nil(t, got.Parts())
					return
				}
				// The other part's permits are free by now.
				assert.Equal(t, []Answer{got.Answer, {Allowed: true, Limit: 100}}, got.Parts())
			})
		})
	}
}

// TestADenialThatEndsAsItIsKept stays no longer. It takes many to meet that moment.
func TestADenialThatEndsAsItIsKept(t *testing.T) {
	g := New(Settings{Denials: true})
	for i := range 50_000 {
		asked := time.Now().Add(time.Duration(i%3000) - time.Millisecond)
		g.denials.keep(&denial{limiter: named(g, strconv.Itoa(i)), outlook: &view{limit: 10}, permits: 1, until: time.Millisecond, asked: asked}, 0)
	}
	assert.Eventually(t, func() bool {
		kept := 0
		g.denials.byID.Range(func(any, any) bool { kept++; return true })
		return kept == 0
	}, 5*time.Second, 10*time.Millisecond)
}

// TestWhatWasKnownBeforeAChangeNeverDenies, not for the moment either that it takes to see that there was a change.
func TestWhatWasKnownBeforeAChangeNeverDenies(t *testing.T) {
	g := New(Settings{Denials: true})
	l := named(g, "a")
	known := g.denials.version(l)
	change(t.Context(), g, "a")
	var denied atomic.Int64
	done, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, ok := l.deny(Ask{Permits: 1}); ok {
				denied.Add(1)
			}
		}
	}()
	for range 20_000 {
		g.denials.keep(&denial{limiter: l, outlook: &view{limit: 10, after: time.Hour}, permits: 1, until: time.Hour, asked: time.Now()}, known)
	}
	close(done)
	<-left
	assert.Zero(t, denied.Load(), "answers of 20,000 that were over before they were kept")
}

// TestADenialIsKeptUntilItsEnd, by the fewest permits that were denied in a call, and not beyond.
func TestADenialIsKeptUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Settings{Denials: true})
		g.denials.caching.Store(cachingNo)
		l := named(g, "a")
		answer := func(denied int64, after time.Duration) *Batch {
			return &Batch{Outlook: &view{limit: 10, free: 1, after: after}, Denied: denied, asked: time.Now()}
		}
		l.remember(answer(2, second), 0)
		require.NotNil(t, denialOf(g, "a"))
		assert.Equal(t, second, denialOf(g, "a").until)
		assert.EqualValues(t, 2, denialOf(g, "a").permits)
		pass(second - 1)
		assert.NotNil(t, denialOf(g, "a"))
		pass(1)
		synctest.Wait()
		assert.Nil(t, denialOf(g, "a"))

		// What ends at once is not worth it, and what is over already is worth nothing, nor is what nobody knows the end of.
		l.remember(answer(2, checkEvery), 0)
		assert.Nil(t, denialOf(g, "a"))
		late := answer(2, second)
		pass(2 * second)
		l.remember(late, 0)
		assert.Nil(t, denialOf(g, "a"))
		g.denials.keep(&denial{limiter: l, asked: late.asked, until: 2 * second}, 0)
		assert.Nil(t, denialOf(g, "a"))
		l.remember(answer(1, second), 0)
		assert.Nil(t, denialOf(g, "a"))
		l.remember(&Batch{Denied: 2, asked: time.Now()}, 0)
		assert.Nil(t, denialOf(g, "a"))

		// Nor is what was known before this client changed the limiter.
		known := g.denials.version(l)
		change(t.Context(), g, "a")
		l.remember(answer(2, second), known)
		assert.Nil(t, denialOf(g, "a"))
		l.remember(answer(2, second), g.denials.version(l))
		dropped := denialOf(g, "a")
		require.NotNil(t, dropped)
		g.denials.drop(dropped)
		assert.Nil(t, denialOf(g, "a"))
		assert.False(t, dropped.end.Stop(), "its timer runs on")

		// The outlook is the denial's own: that of the batch is used again.
		b := answer(2, second)
		l.remember(b, g.denials.version(l))
		b.Outlook.(*view).limit = 1
		assert.EqualValues(t, 10, denialOf(g, "a").outlook.Limit())
		change(t.Context(), g, "a")
	})
}

// TestForgottenDenialsLeaveNoTimers is Issue 9, point 11.
func TestForgottenDenialsLeaveNoTimers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := open(b.remembering(), "limiter", 10, 24*time.Hour)
		remembered := func() *denial {
			b.full(l, 10)
			synctest.Wait()
			require.NotNil(b, denialOf(l.Engine, "limiter"))
			return denialOf(l.Engine, "limiter")
		}
		b.take(l, 9)
		forgotten := remembered()
		change(b.Context(), l.Engine, "limiter")
		assert.Nil(b, denialOf(l.Engine, "limiter"))
		assert.False(b, forgotten.end.Stop(), "its timer runs on")

		replaced := remembered()
		b.full(l, 5) // fewer than were denied before
		synctest.Wait()
		assert.NotSame(b, replaced, denialOf(l.Engine, "limiter"))
		assert.False(b, replaced.end.Stop(), "its timer runs on")
		change(b.Context(), l.Engine, "limiter")
	})
}

func TestDenialsAreForgottenInTime(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := open(b.remembering(), "limiter", 1, second)
		b.take(l, 1)
		b.full(l, 1)
		synctest.Wait()
		left := func() (n int) {
			l.Engine.denials.byID.Range(func(_, _ any) bool { n++; return true })
			return n
		}
		assert.Equal(b, 1, left())
		pass(second)
		synctest.Wait()
		assert.Zero(b, left())
	})
}

// TestACallThatNobodyMakesIsNoDenial: a batch whose callers have all gone knows nothing but what its last call said,
// which was about another limiter.
func TestACallThatNobodyMakesIsNoDenial(t *testing.T) {
	inBubble(t, func(b *bubble) {
		g := b.remembering()
		l, other := open(g, "limiter", 10, time.Minute), open(g, "other", 10, time.Minute)
		for _, name := range []string{"limiter", "other"} {
			b.take(open(b.engine(), name, 10, time.Minute), 10)
		}
		b.full(l, 1)
		synctest.Wait()
		_, denied := l.deny(Ask{Permits: 1})
		require.True(b, denied)

		carryNobody(b, other)
		synctest.Wait()
		_, denied = other.deny(Ask{Permits: 1})
		assert.False(b, denied)
		assert.True(b, g.Idle())
	})
}

// TestADenialEndsWithAnyOfItsSubjects, whichever limiters share them.
func TestADenialEndsWithAnyOfItsSubjects(t *testing.T) {
	for name, test := range map[string]struct {
		changed string
		want    []bool // whether both, a and b are denied still
	}{
		"its own":         {"a", []bool{false, false, true}},
		"another's":       {"b", []bool{false, true, false}},
		"its ID, no more": {"both", []bool{false, true, true}},
		"none":            {"c", []bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				g := b.remembering()
				limiters := []*window{open(g, "both", 10, time.Hour), open(g, "a", 10, time.Hour), open(g, "b", 10, time.Hour)}
				limiters[0].Subjects = []string{"a", "b"}
				for _, l := range limiters {
					b.take(l, 10)
					b.full(l, 1)
					synctest.Wait()
				}
				change(b.Context(), g, test.changed)
				for i, l := range limiters {
					_, denied := l.deny(Ask{Permits: 1})
					assert.Equal(b, test.want[i], denied, l.ID)
				}
				change(b.Context(), g, "a", "b")
				synctest.Wait()
				assert.Empty(b, g.denials.index.ids, "nothing is kept of what is forgotten")

				// What changed while the call was under way is not remembered either.
				b.Latency.Store(int64(100 * time.Millisecond))
				time.AfterFunc(50*time.Millisecond, func() { change(b.Context(), g, "b") })
				b.full(limiters[0], 1)
				pass(10 * second)
				synctest.Wait()
				_, denied := limiters[0].deny(Ask{Permits: 1})
				assert.False(b, denied)
				assert.Empty(b, g.denials.index.ids)
			})
		})
	}
}

// TestAChangeIsToldOfOnceTheServerHasAnswered, and not before: what is learned meanwhile may be older than it.
func TestAChangeIsToldOfOnceTheServerHasAnswered(t *testing.T) {
	g := New(Settings{Denials: true})
	l := named(g, "a")
	var known uint64
	_, err := Changing(t.Context(), g, []string{"a"}, func(context.Context) (any, error) {
		known = g.denials.version(l)
		return nil, nil
	})
	require.NoError(t, err)
	assert.Greater(t, g.denials.version(l), known)
}

// TestChangesOfLimitersAreCountedApart: most of them are no reason to forget what is known of another.
func TestChangesOfLimitersAreCountedApart(t *testing.T) {
	d := newDenials()
	counters := map[*atomic.Uint64]bool{}
	for i := range 2000 {
		counters[d.counter(strconv.Itoa(i))] = true
	}
	assert.Greater(t, len(counters), 200)
}
