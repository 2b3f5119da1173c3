package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// storm has callers ask, wait and leave at any time, while this Client and another program change the limiters and
// their slot moves. Its oracle:
//
//   - A request is denied only by a reply to a call that was sent after it arrived, or from memory.
//   - A change by this Client ends what was known before.
//   - Each caller has one answer in time. Those that stayed have the permits that are taken; the others are refunded.
//   - No state of callers that do not wait is left.
type storm struct {
	*fixture
	g        *Engine
	random   *rand.Rand
	events   *events
	rate     int64
	limiters []*stormy
	callers  sync.WaitGroup
	started  int
}

// stormy is a limiter of a storm.
type stormy struct {
	*fake
	granted atomic.Int64 // permits
	changed atomic.Int64 // the newest exchange before the last change of this Client that has ended
}

func newStorm(f *fixture, settings Settings, seed uint64) *storm {
	s := &storm{fixture: f, random: rand.New(rand.NewPCG(seed, 9)), events: new(events)}
	settings.Redis, settings.Observer = f.Conn, s.events.observer(f)
	s.g, s.rate = New(settings), int64(1+s.random.IntN(400))
	for i := range 1 + s.random.IntN(40) {
		l := open(s.g, fmt.Sprint("limiter:", i), s.rate, time.Hour)
		l.DependsOn = append(l.DependsOn, fmt.Sprint("shared:", i%8))
		s.limiters = append(s.limiters, &stormy{fake: l})
	}
	return s
}

// soon returns a random time below most.
func (s *storm) soon(most time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(most)))
}

// blow lets so many events happen, and requires that nothing is left of them.
func (s *storm) blow(events int) {
	for events > 0 {
		round := min(events, 1+s.random.IntN(400))
		events -= round
		s.Latency.Store(int64(s.soon(10 * time.Millisecond)))
		if s.random.IntN(8) == 0 {
			s.moveSlot()
		}
		for range round {
			l, after := s.limiters[s.random.IntN(len(s.limiters))], s.soon(20*time.Millisecond)
			switch s.random.IntN(40) {
			case 0:
				s.change(l, after)
			case 1:
				more := s.random.Int64N(1 + s.rate/10)
				time.AfterFunc(after, func() { s.raise(l, more) }) // another program
			default:
				s.ask(l, after)
			}
		}
		time.Sleep(s.soon(60 * time.Millisecond))
		if s.random.IntN(2) == 0 {
			s.callers.Wait()
			time.Sleep(time.Second)
		}
		if s.random.IntN(8) == 0 {
			_ = s.g.Flush(context.Background()) // returns the error of a call that failed
		}
	}
	s.callers.Wait()
	s.Latency.Store(0)
	time.Sleep(time.Second)
	synctest.Wait()
	s.requireNothingLeft()
}

// raise raises the limit of a limiter, and returns the newest exchange then.
func (s *storm) raise(l *stormy, more int64) (newest int64) {
	s.fixture.change(l.fake, func(state *state) {
		state.limit += more
		newest = lastExchange.Load()
	})
	return newest
}

// change has this Client raise the limit of a limiter.
func (s *storm) change(l *stormy, after time.Duration) {
	more := s.random.Int64N(1 + s.rate/10)
	s.callers.Go(func() {
		time.Sleep(after)
		newest, err := ChangeLimiters(context.Background(), s.g, l.DependsOn, func(context.Context) (int64, error) {
			time.Sleep(time.Duration(s.Latency.Load()))
			return s.raise(l, more), nil
		})
		assert.NoError(s, err)
		l.changed.Store(max(newest, l.changed.Load()))
	})
}

// ask has a caller ask, or wait, for permits of a limiter.
func (s *storm) ask(l *stormy, after time.Duration) {
	ask := Ask{Permits: 1 + s.random.Int64N(1+s.rate/20)}
	if s.random.IntN(20) == 0 {
		ask.Permits = s.rate + 1
	}
	what, timeout := s.random.IntN(6), 2*time.Nanosecond+s.soon(30*time.Millisecond)
	leaves := s.random.IntN(3) > 0 || what == 5
	switch what {
	case 1, 3:
		ask.Detail = true
	case 2:
		ask = Ask{Permits: 1, UpTo: ask.Permits, Detail: true}
	}
	s.started++
	s.callers.Go(func() {
		time.Sleep(after)
		ctx := context.WithValue(context.Background(), callerKey{}, 1)
		if leaves {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			time.AfterFunc(timeout, cancel)
		}
		start, sent, changed := time.Now(), lastExchange.Load(), l.changed.Load()
		var result Result
		var err error
		switch what {
		case 0, 1, 2:
			_, err = l.Limiter.Try(ctx, ask, &result)
		case 3:
			_, err = l.Wait(ctx, ask, start.Add(timeout/2), &result)
		case 4:
			_, err = l.Wait(ctx, ask, start.Add(time.Nanosecond), &result)
		case 5:
			_, err = l.Wait(ctx, ask, time.Time{}, &result)
		}
		if leaves || what >= 3 {
			assert.LessOrEqual(s, time.Since(start), timeout)
		}
		switch {
		case err != nil:
			assert.False(s, result.Allowed)
			assert.True(s, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
				ask.Permits > s.rate && errors.As(err, new(aboveLimit)) || strings.Contains(err.Error(), moving), "%v", err)
		case result.Allowed:
			assert.GreaterOrEqual(s, result.Granted, ask.Permits)
			assert.LessOrEqual(s, result.Granted, ask.Most())
			l.granted.Add(result.Granted)
		}
		if err == nil {
			s.requireNews(l, result, sent, changed)
		}
	})
}

// requireNews requires that a result follows from a reply to a call behind so many exchanges, or from memory or a
// prefetch behind the last change.
func (s *storm) requireNews(l *stormy, result Result, sent, changed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.last[l.ID]
	switch result.From {
	case FromRedis:
		assert.Greater(s, last.reply, sent, "from before the request")
	case FromMemory:
		assert.False(s, result.Allowed)
		assert.Greater(s, last.denial, changed, "denied from before a change")
	case FromPrefetch:
		assert.True(s, result.Allowed)
		assert.Greater(s, last.prefetch, changed, "prefetched before a change")
	}
}

// requireNothingLeft requires that all permits are accounted for, and that no state is left.
func (s *storm) requireNothingLeft() {
	assert.True(s, s.g.idle())
	for i := range s.g.registry.active {
		assert.Zero(s, s.g.registry.active[i].Load()&^crowdedBit)
	}
	assert.Zero(s, size(&s.g.registry.index.keys))
	assert.Empty(s, s.g.transfers.all())
	decisions, _, waits := s.events.all()
	assert.Len(s, decisions, s.started)
	reported, waiting := int64(0), 0
	for _, d := range decisions {
		if d.Granted {
			reported += d.Permits
		}
	}
	for _, l := range s.limiters {
		s.fixture.change(l.fake, func(state *state) {
			assert.Equal(s, state.limit-l.granted.Load(), state.free(time.Now()), "free permits")
		})
		reported -= l.granted.Load()
	}
	assert.Zero(s, reported)
	for _, w := range waits {
		waiting += w.Change
	}
	assert.Zero(s, waiting)
}

// The kinds of engines that a storm has.
var kinds = []Settings{
	{}, {Denials: time.Hour}, {ServerTime: true}, {Prefetch: 20 * time.Millisecond},
	{Denials: time.Hour, Prefetch: 20 * time.Millisecond}, {Denials: time.Second, ServerTime: true},
}

func TestEngine_CallersLeaveAtAnyTime_NoPermitIsLost(t *testing.T) {
	for seed := range uint64(redistest.Deep(2, 20)) {
		for kind, settings := range kinds {
			runWithServer(t, fmt.Sprint(seed, ", ", kind), func(_ *testing.T, f *fixture) {
				newStorm(f, settings, seed).blow(1200)
			})
		}
	}
}

// FuzzEngine has 100 events in each run.
func FuzzEngine(f *testing.F) {
	f.Add(uint64(1), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, kind uint8) {
		withServer(t, func(_ *testing.T, f *fixture) { newStorm(f, kinds[int(kind)%len(kinds)], seed).blow(100) })
	})
}
