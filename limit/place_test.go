package limit

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestTaken_InFlightBesideRedisson_ReturnsThePlace, also where more was used than Redisson's can be charged.
func TestTaken_InFlightBesideRedisson_ReturnsThePlace(t *testing.T) {
	for _, actual := range []int64{0, 1, 2, 3} {
		withRedis(t, func(t *testing.T, f *fixture) {
			rate := rratelimiter.Rate{Permits: 20, Interval: time.Hour}
			shared := f.client.Limiter("{x}:shared", rratelimiter.InitialRate(rate))
			places := New(f.client, "{x}:places", InFlight{5, time.Minute, false})
			var taken Taken
			takeAll(t, &taken, 2, shared, places)
			assert.Equal(t, []int64{3}, remainingOf(t, places))
			err := taken.Settle(t.Context(), actual)
			assert.Equal(t, actual > 2, err != nil, "%v", err)
			assert.Equal(t, []int64{5}, remainingOf(t, places))
			assert.Equal(t, 20-min(2, actual), redistest.Available(t, shared))
			var alone Taken
			takeAll(t, &alone, 2, places)
			require.NoError(t, alone.Settle(t.Context(), 4), "there is nothing to charge")
			assert.Equal(t, []int64{5}, remainingOf(t, places))
			takeAll(t, &alone, 3, places)
			require.NoError(t, alone.Settle(t.Context(), 1))
			assert.Equal(t, []int64{5}, remainingOf(t, places), "1 and 2 by the same script")
		})
	}
}

// TestInFlight_ChargeAndRelease_LeavePlaces, and are errors without another policy.
func TestInFlight_ChargeAndRelease_LeavePlaces(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", SlidingLog{40, time.Hour}, InFlight{8, time.Hour, false}, Pause{time.Hour})
		alone := New(f.client, "name", InFlight{8, time.Hour, false}, Pause{time.Hour})
		var taken Taken
		takeAll(t, &taken, 3, l)
		assert.True(t, redistest.Result(t, l.Charge, 5).Allowed)
		assert.Equal(t, []int64{32, 5}, remainingOf(t, l)[:2])
		require.NoError(t, l.Release(t.Context(), 7))
		assert.Equal(t, []int64{39, 5}, remainingOf(t, l)[:2])
		_, err := alone.Charge(t.Context(), 1)
		require.ErrorIs(t, err, ErrNotChargeable)
		require.ErrorContains(t, err, "Taken")
		err = alone.Release(t.Context(), 1)
		require.ErrorIs(t, err, ErrNotReleasable)
		require.ErrorContains(t, err, "Taken")
		require.NoError(t, taken.Settle(t.Context(), 3))
		assert.Equal(t, []int64{39, 8}, remainingOf(t, l)[:2])
	})
}

// TestTaken_RedisRefuses_PlaceReturnsAfterIt: by each error that says that the node cannot serve, and by others.
func TestTaken_RedisRefuses_PlaceReturnsAfterIt(t *testing.T) {
	for _, refusal := range []string{"OOM command not allowed", "READONLY You can't write", "NOREPLICAS Not enough",
		"BUSY Redis is busy", "LOADING", "MISCONF", "NOPERM", "MASTERDOWN"} {
		for _, lasts := range []time.Duration{300 * time.Millisecond, time.Minute} {
			withRedis(t, func(t *testing.T, f *fixture) {
				l := New(f.client, "name", InFlight{8, time.Hour, false})
				var taken Taken
				takeAll(t, &taken, 8, l)
				f.Redis.SetError(refusal)
				begin := time.Now()
				time.AfterFunc(lasts, func() { f.Redis.SetError("") })
				err := taken.Settle(t.Context(), 8)
				if lasts < settleFor {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, "not returned yet")
					assert.Equal(t, settleFor, time.Since(begin))
					require.NoError(t, taken.Settle(t.Context()), "it holds nothing")
				}
				time.Sleep(lasts + time.Second)
				assert.Equal(t, []int64{8}, remainingOf(t, l), refusal)
			})
		}
	}
}

// TestInFlight_ReplyOfTheGrantLost_PlaceReturns: no caller holds it.
func TestInFlight_ReplyOfTheGrantLost_PlaceReturns(t *testing.T) {
	for name, take := range takingCalls {
		if name == "TakeUpTo" {
			continue // the permits are unknown
		}
		withRedis(t, func(t *testing.T, f *fixture) {
			client, lose := lossyClient(t, f)
			l := New(client, "name", FixedWindow{100, time.Hour, false}, InFlight{8, time.Hour, false})
			takeAll(t, new(Taken), 1, l) // loads the script
			lose.Store(1)
			require.Error(t, take(t.Context(), l, 3), name)
			time.Sleep(5 * time.Second)
			assert.EqualValues(t, 7, remainingOf(t, l)[1], name)
		})
	}
}

// TestInFlight_CallerLeaves_PlaceReturns: also with others that share its call.
func TestInFlight_CallerLeaves_PlaceReturns(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", InFlight{100, time.Hour, true})
		f.Latency.Store(int64(50 * time.Millisecond))
		var stays [20]Taken
		for i := range 40 {
			go func() {
				if i%2 == 0 {
					takeAll(t, &stays[i/2], 1, l)
					return
				}
				ctx := redistest.Timeout(t, 10*time.Millisecond)
				assert.ErrorIs(t, redistest.Err(new(Taken).Take(ctx, 1, l)), context.DeadlineExceeded)
			}()
		}
		time.Sleep(time.Second)
		assert.Equal(t, []int64{80}, remainingOf(t, l))
		for i := range stays {
			require.NoError(t, stays[i].Settle(t.Context(), 1))
		}
		assert.Equal(t, []int64{100}, remainingOf(t, l))
	})
}

// TestTaken_HookPanics_PlaceReturns: a caller whose Observer panics after the grant holds nothing.
func TestTaken_HookPanics_PlaceReturns(t *testing.T) {
	for _, hook := range []string{"Decision", "RedisCall", "Waiting ends", "Places"} {
		withRedis(t, func(t *testing.T, f *fixture) {
			called := func(name string) {
				if name == hook {
					panic("a hook")
				}
			}
			client := rratelimiter.New(f.Conn, rratelimiter.WithObserver(&rratelimiter.Observer{
				Decision:  func(context.Context, rratelimiter.DecisionInfo) { called("Decision") },
				RedisCall: func(context.Context, rratelimiter.RedisCallInfo) { called("RedisCall") },
				Waiting: func(_ context.Context, w rratelimiter.WaitingInfo) {
					called(map[int]string{1: "Waiting", -1: "Waiting ends"}[w.Change])
				},
				Places: func(p rratelimiter.PlacesInfo) { called(map[int]string{1: "Places"}[p.Change]) },
			}))
			l := New(client, "name", InFlight{5, time.Hour, true})
			f.Latency.Store(int64(time.Millisecond))
			var all sync.WaitGroup
			for i := range 4 { // three of them share a call
				all.Go(func() {
					var taken Taken
					defer func() {
						_ = recover()
						assert.NoError(t, taken.Settle(t.Context(), 1))
					}()
					if i%2 == 0 || hook == "Waiting ends" {
						_ = taken.Acquire(t.Context(), 1, l)
					} else {
						_, _ = taken.Take(t.Context(), 1, l)
					}
				})
			}
			all.Wait()
			time.Sleep(time.Second)
			assert.Equal(t, []int64{5}, remainingOf(t, New(f.client, "name", InFlight{5, time.Hour, true})), hook)
		})
	}
}

// TestTaken_Renew_HoldsForTheCall and no longer: the lease of a process that ended stays for its length.
func TestTaken_Renew_HoldsForTheCall(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", InFlight{2, 15 * time.Second, true})
		var taken Taken
		takeAll(t, &taken, 1, l)
		require.True(t, redistest.Result(t, l.TryAcquire, 1), "no call returns it, so it is not renewed")
		time.Sleep(90 * time.Second)
		assert.Equal(t, []int64{1}, remainingOf(t, l))
		require.NoError(t, f.client.Flush(t.Context()), "it does not wait for the call")
		require.NoError(t, taken.Settle(t.Context(), 1))
		assert.Empty(t, f.Redis.Keys())
	})
}

// TestTaken_LeaseEnds_HolderLearnsIt, by Lost and by Settle.
func TestTaken_LeaseEnds_HolderLearnsIt(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", FixedWindow{9, time.Hour, false}, InFlight{1, 15 * time.Second, true})
		var taken, next Taken
		before := taken.Lost()
		takeAll(t, &taken, 1, l)
		lost := taken.Lost()
		time.Sleep(11 * time.Second)
		f.Redis.SetError("LOADING")
		time.Sleep(12 * time.Second)
		synctest.Wait()
		select {
		case <-lost:
			t.Fatal("its lease lasts")
		default:
		}
		time.Sleep(4 * time.Second)
		<-lost
		<-before
		f.Redis.SetError("")
		takeAll(t, &next, 1, l)
		require.ErrorIs(t, taken.Settle(t.Context(), 1), ErrLost)
		require.NoError(t, taken.Settle(t.Context(), 1))
		assert.Equal(t, []int64{7, 0}, remainingOf(t, l), "the place of another")
		select {
		case <-taken.Lost():
			t.Fatal("it holds nothing")
		default:
		}
		require.NoError(t, l.Reset(t.Context()))
		time.Sleep(5 * time.Second)
		<-next.Lost()
		require.ErrorIs(t, next.Settle(t.Context()), ErrLost)
	})
}

// TestTaken_TakeEach_SaysWhichDenied: a job waits for a place or for a minute.
func TestTaken_TakeEach_SaysWhichDenied(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		minute := New(f.client, "{x}:minute", FixedWindow{3, time.Minute, false})
		places := New(f.client, "{x}:places", InFlight{2, time.Hour, false})
		allowed := func(taken *Taken) (all []bool) {
			each, err := taken.TakeEach(t.Context(), 1, minute, places)
			require.NoError(t, err)
			for _, d := range each {
				all = append(all, d.Allowed)
			}
			return all
		}
		var a, b, c Taken
		require.Equal(t, []bool{true, true}, allowed(&a))
		require.Equal(t, []bool{true, true}, allowed(&b))
		require.Equal(t, []bool{true, false}, allowed(&c), "no place")
		require.NoError(t, a.Settle(t.Context(), 1))
		require.Equal(t, []bool{true, true}, allowed(&c))
		require.NoError(t, b.Settle(t.Context(), 1))
		require.Equal(t, []bool{false, true}, allowed(&b), "no minute")
		require.NoError(t, c.Settle(t.Context(), 1))
		assert.Equal(t, []int64{0, 2}, remainingOf(t, minute, places))
	})
}

// around is a client whose next call is made by a function, if that is set.
type around struct {
	rueidis.Client
	next atomic.Pointer[func(send func() rueidis.RedisResult) rueidis.RedisResult]
}

func (a *around) Do(ctx context.Context, c rueidis.Completed) rueidis.RedisResult {
	send := func() rueidis.RedisResult { return a.Client.Do(ctx, c) }
	if next := a.next.Swap(nil); next != nil {
		return (*next)(send)
	}
	return send()
}

func (a *around) set(next func(send func() rueidis.RedisResult) rueidis.RedisResult) {
	a.next.Store(&next)
}

// TestInFlight_CallPanics_PlaceReturns: a hook of rueidis panics after the reply. The clock panics before the call, which
// has taken nothing then.
func TestInFlight_CallPanics_PlaceReturns(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		policy := InFlight{2, time.Hour, true}
		conn := &around{Client: f.Conn}
		var panics atomic.Int64 // the reading of the clock that panics
		own := New(rratelimiter.New(conn, rratelimiter.WithClock(func() time.Time {
			if panics.Add(-1) == 0 {
				panic("a clock")
			}
			return time.Now()
		})), "name", policy)
		takeAll(t, new(Taken), 1, own) // Redis has the script
		for _, reading := range []int64{0, 1} {
			if panics.Store(reading); reading == 0 {
				conn.set(func(send func() rueidis.RedisResult) rueidis.RedisResult {
					send()
					panic("a hook")
				})
			}
			var taken Taken
			require.Panics(t, func() { _, _ = taken.Take(context.Background(), 1, own) }, reading)
			require.NoError(t, taken.Settle(t.Context()))
			time.Sleep(time.Second)
			assert.Equal(t, []int64{1}, remainingOf(t, New(f.client, "name", policy)), reading)
		}
	})
}

// TestInFlight_ConnectionEnds_PlaceReturns, whatever the error: that of a ping which is not answered is a bare timeout.
func TestInFlight_ConnectionEnds_PlaceReturns(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		conn := &around{Client: f.Conn}
		l := New(rratelimiter.New(conn), "name", InFlight{2, time.Hour, true})
		takeAll(t, new(Taken), 1, l) // Redis has the script
		for _, err := range []error{os.ErrDeadlineExceeded, io.ErrUnexpectedEOF, errors.New("no credentials")} {
			conn.set(func(send func() rueidis.RedisResult) rueidis.RedisResult {
				send()
				return rueidis.NewErrorResult(err)
			})
			require.ErrorIs(t, redistest.Err(new(Taken).Take(t.Context(), 1, l)), err)
			time.Sleep(time.Second)
			assert.Equal(t, []int64{1}, remainingOf(t, l), err)
		}
	})
}

// TestInFlight_ReturnOvertakesItsGrant_PlaceReturns: the server runs the return before the call, which is on another
// connection.
func TestInFlight_ReturnOvertakesItsGrant_PlaceReturns(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		conn := &around{Client: f.Conn}
		l := New(rratelimiter.New(conn), "name", InFlight{2, time.Hour, true})
		takeAll(t, new(Taken), 1, l) // Redis has the script
		conn.set(func(send func() rueidis.RedisResult) rueidis.RedisResult {
			time.AfterFunc(10*time.Second, func() { send() })
			return rueidis.NewErrorResult(io.EOF)
		})
		require.Error(t, redistest.Err(new(Taken).Take(t.Context(), 1, l)))
		time.Sleep(10*time.Second + time.Millisecond)
		require.Equal(t, []int64{0}, remainingOf(t, l))
		time.Sleep(10 * time.Second)
		assert.Equal(t, []int64{1}, remainingOf(t, l))
	})
}

// TestInFlight_InitialRateIsRefused_PlaceReturns: the user may not set the rate, and another program does before the
// call, which takes a place then. Its caller gets the refusal.
func TestInFlight_InitialRateIsRefused_PlaceReturns(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		rate := rratelimiter.InitialRate(rratelimiter.Rate{Permits: 9, Interval: time.Hour})
		shared, places := f.client.Limiter("{x}:shared", rate), New(f.client, "{x}:places", InFlight{2, time.Hour, true})
		takeAll(t, new(Taken), 1, shared, places) // Redis has the script
		synctest.Wait()                           // and drift is counted
		f.Redis.Del("{x}:shared")
		refused := false
		f.Redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
			if command != "EVAL" || refused { // the first one sets the rate
				return false
			}
			refused = true
			f.Redis.HSet("{x}:shared", "rate", "9", "interval", "3600000", "type", "0")
			peer.WriteError("NOPERM this user has no permissions")
			return true
		})
		require.ErrorContains(t, redistest.Err(new(Taken).Take(t.Context(), 1, shared, places)), "NOPERM")
		time.Sleep(time.Second)
		assert.Equal(t, []int64{1}, remainingOf(t, places))
	})
}
