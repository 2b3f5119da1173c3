package hold

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fake is the places of a key, and the calls for them.
type fake struct {
	mu      sync.Mutex
	ends    map[string]time.Time
	lease   time.Duration
	fails   error         // of each call
	latency time.Duration // of each call

	returns, renewals []int // the members of each call
	late              int   // calls that were left before they ended
}

func (f *fake) call(ctx context.Context) error {
	f.mu.Lock()
	wait, err := f.latency, f.fails
	f.mu.Unlock()
	select {
	case <-time.After(wait):
		return err
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		f.late++
		return ctx.Err()
	}
}

func (f *fake) Return(ctx context.Context, members []string) error {
	err := f.call(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.returns = append(f.returns, len(members))
	if err == nil {
		for _, m := range members {
			delete(f.ends, m)
		}
	}
	return err
}

func (f *fake) Renew(ctx context.Context, members []string) (ended []int, err error) {
	err = f.call(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewals = append(f.renewals, len(members))
	if err != nil {
		return nil, err
	}
	for i, m := range members {
		if f.ends[m].After(time.Now()) {
			f.ends[m] = time.Now().Add(f.lease)
		} else {
			ended = append(ended, i)
		}
	}
	return ended, nil
}

func (f *fake) set(fails error, latency time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails, f.latency = fails, latency
}

// held returns the places whose lease lasts.
func (f *fake) held() (n int) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, end := range f.ends {
		if end.After(time.Now()) {
			n++
		}
	}
	return n
}

// grant returns a Hold of a place, and its losses.
func (f *fake) grant(k *Keeper, member string, renew bool) (h *Hold, lost func() []error) {
	f.mu.Lock()
	f.ends[member] = time.Now().Add(f.lease)
	f.mu.Unlock()
	var all []error
	h = k.New()
	h.Add(Terms{"name", "key", f.lease, renew, f}, member, time.Now())
	h.Start(func(err error) { all = append(all, err) })
	return h, func() []error {
		synctest.Wait()
		return all
	}
}

func run(t *testing.T, test func(t *testing.T, k *Keeper, f *fake)) {
	synctest.Test(t, func(t *testing.T) {
		k := new(Keeper)
		test(t, k, &fake{ends: make(map[string]time.Time), lease: 15 * time.Second})
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Empty(t, k.sets, "it keeps nothing")
	})
}

func TestHold_Nil_HoldsNothing(t *testing.T) {
	var h *Hold
	h.Start(nil)
	h.Return()
	require.NoError(t, h.Wait(t.Context()))
	called := 0
	h = Local(func() { called++ })
	h.Start(nil)
	h.Return()
	require.NoError(t, h.Wait(t.Context()))
	assert.Equal(t, 1, called)
}

// TestReturn_Twice_IsOneCall: also while the first is under way, and after it.
func TestReturn_Twice_IsOneCall(t *testing.T) {
	run(t, func(t *testing.T, k *Keeper, f *fake) {
		f.set(nil, time.Second)
		h, lost := f.grant(k, "a", false)
		h.Return()
		h.Return()
		require.ErrorIs(t, h.Wait(canceled(t)), context.Canceled)
		require.NoError(t, h.Wait(t.Context()))
		h.Return()
		require.NoError(t, h.Wait(t.Context()))
		assert.Equal(t, []int{1}, f.returns)
		assert.Zero(t, f.held())
		assert.Empty(t, lost())
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestReturn_Fails_IsRepeated at most a second apart, until the lease ends. Then the holder learns it.
func TestReturn_Fails_IsRepeated(t *testing.T) {
	refused := errors.New("OOM")
	for _, c := range []struct {
		lasts, latency time.Duration
		lost           bool
	}{{300 * time.Millisecond, 0, false}, {14 * time.Second, 0, false}, {16 * time.Second, 0, true},
		{14 * time.Second, time.Minute, true}, {10 * time.Second, time.Minute, false}} {
		run(t, func(t *testing.T, k *Keeper, f *fake) {
			f.set(refused, c.latency)
			h, lost := f.grant(k, "a", false)
			h.Return()
			time.Sleep(c.lasts)
			f.set(nil, 0)
			err := h.Wait(t.Context())
			synctest.Wait()
			if c.lost {
				require.ErrorIs(t, err, ErrLost)
				assert.Len(t, lost(), 1)
			} else {
				require.NoError(t, err)
				assert.Empty(t, lost())
			}
			assert.GreaterOrEqual(t, len(f.returns), int(c.lasts/(callFor+longestPause)))
			assert.LessOrEqual(t, len(f.returns), int(c.lasts/longestPause)+6)
			assert.Zero(t, f.held())
		})
	}
}

// TestReturnUnknown_GrantArrivesLate_PlaceReturns: within a second, or as long again as the grant was late. No caller
// waits for that. The end of the lease and a closed connection end it.
func TestReturnUnknown_GrantArrivesLate_PlaceReturns(t *testing.T) {
	for late := time.Millisecond; late < time.Minute; late *= 3 {
		run(t, func(t *testing.T, k *Keeper, f *fake) {
			f.lease = time.Hour
			h := k.New()
			h.Add(Terms{"name", "key", f.lease, true, f}, "a", time.Now())
			h.ReturnUnknown()
			begin := time.Now()
			require.NoError(t, h.Wait(t.Context()))
			require.NoError(t, k.Flush(t.Context()))
			assert.Equal(t, begin, time.Now())
			time.Sleep(late)
			f.grant(k, "a", false)
			time.Sleep(max(firstAgain, late+time.Millisecond))
			assert.Zero(t, f.held(), late)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			assert.Len(t, f.returns, 7)
		})
	}
	for what, want := range map[string]int{"a short lease": 3, "the connection is closed": 2} {
		run(t, func(t *testing.T, k *Keeper, f *fake) {
			h := k.New()
			h.Add(Terms{"name", "key", 5 * time.Second, true, f}, "a", time.Now())
			h.ReturnUnknown()
			synctest.Wait()
			if what == "the connection is closed" {
				f.set(rueidis.ErrClosing, 0)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Len(t, f.returns, want, what)
		})
	}
}

// TestReturn_Many_ShareCalls: few are under way at once, and one after a failure.
func TestReturn_Many_ShareCalls(t *testing.T) {
	run(t, func(t *testing.T, k *Keeper, f *fake) {
		f.set(nil, time.Second)
		for i := range 3000 {
			h, _ := f.grant(k, string(rune('a'+i)), false)
			h.Return()
		}
		require.NoError(t, k.Flush(t.Context()))
		assert.Zero(t, f.held())
		slices.Sort(f.returns)
		assert.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 1, 992, 1000, 1000}, f.returns)
	})
}

// TestReturn_ConnectionClosed_Ends: there will be no answer.
func TestReturn_ConnectionClosed_Ends(t *testing.T) {
	run(t, func(t *testing.T, k *Keeper, f *fake) {
		f.set(rueidis.ErrClosing, 0)
		h, lost := f.grant(k, "a", false)
		h.Return()
		require.ErrorIs(t, h.Wait(t.Context()), rueidis.ErrClosing)
		synctest.Wait()
		assert.Len(t, lost(), 1)
	})
}

// TestFlush_ReturnsUnderWay_AreAwaited, for five seconds at most.
func TestFlush_ReturnsUnderWay_AreAwaited(t *testing.T) {
	run(t, func(t *testing.T, k *Keeper, f *fake) {
		require.NoError(t, k.Flush(t.Context()))
		for _, fails := range []error{nil, errors.New("READONLY")} {
			f.set(fails, 0)
			h, _ := f.grant(k, "a", false)
			h.Return()
			begin := time.Now()
			time.AfterFunc(time.Second, func() { f.set(nil, 0) })
			require.NoError(t, k.Flush(t.Context()))
			assert.LessOrEqual(t, time.Since(begin), 2*time.Second)
			assert.Zero(t, f.held())
		}
		f.set(errors.New("READONLY"), 0)
		h, _ := f.grant(k, "a", false)
		h.Return()
		begin := time.Now()
		require.ErrorContains(t, k.Flush(t.Context()), "READONLY")
		assert.Equal(t, flushFor, time.Since(begin))
		require.ErrorContains(t, k.Flush(canceled(t)), "READONLY")
	})
}

// TestRenew_LongCall_KeepsThePlace: with three calls a lease.
func TestRenew_LongCall_KeepsThePlace(t *testing.T) {
	run(t, func(t *testing.T, k *Keeper, f *fake) {
		a, lost := f.grant(k, "a", true)
		f.grant(k, "held", false)
		time.Sleep(2 * time.Second)
		b, _ := f.grant(k, "b", true)
		time.Sleep(88*time.Second + time.Millisecond)
		assert.Equal(t, 2, f.held())
		assert.Equal(t, slices.Repeat([]int{2}, 18), f.renewals)
		a.Return()
		time.Sleep(30 * time.Second)
		assert.Equal(t, 1, f.held())
		assert.Len(t, f.renewals, 24)
		b.Return()
		synctest.Wait()
		assert.Zero(t, f.held())
		c, _ := f.grant(k, "c", true)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, f.held())
		c.Return()
		assert.Empty(t, lost())
	})
}

// TestRenew_Outage_KeepsOrLoses: a place is kept if Redis answers before its lease ends, and else it is lost at once, and
// not renewed again. Then it is removed, since a renewal may have arrived.
func TestRenew_Outage_KeepsOrLoses(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Minute} {
		for lasts, lose := range map[time.Duration]bool{9 * time.Second: false, 16 * time.Second: true} {
			run(t, func(t *testing.T, k *Keeper, f *fake) {
				h, lost := f.grant(k, "a", true)
				time.Sleep(5*time.Second + time.Millisecond)
				f.set(errors.New("LOADING"), latency)
				time.Sleep(lasts)
				synctest.Wait()
				assert.Len(t, lost(), map[bool]int{true: 1}[lose], "%v, %v", lasts, latency)
				f.set(nil, 0)
				time.Sleep(20 * time.Second)
				assert.Equal(t, map[bool]int{false: 1}[lose], f.held(), "%v, %v", lasts, latency)
				h.Return()
				err := h.Wait(t.Context())
				assert.Equal(t, lose, errors.Is(err, ErrLost), "%v", err)
				assert.Len(t, lost(), map[bool]int{true: 1}[lose])
			})
		}
	}
}

// TestRenew_GrantIsLate_IsRenewedInTime: its lease ends before the next renewal of another place.
func TestRenew_GrantIsLate_IsRenewedInTime(t *testing.T) {
	for _, hangs := range []bool{true, false} { // that renewal
		run(t, func(t *testing.T, k *Keeper, f *fake) {
			a, _ := f.grant(k, "a", true)
			time.Sleep(4 * time.Second)
			if hangs {
				f.set(nil, time.Hour)
				time.Sleep(time.Second + time.Millisecond)
			}
			end, lost := time.Now().Add(time.Second/2), 0
			f.mu.Lock()
			f.ends["b"] = end
			f.mu.Unlock()
			b := k.New()
			b.Add(Terms{"name", "key", f.lease, true, f}, "b", end.Add(-f.lease))
			b.Start(func(error) {
				lost++
				assert.Equal(t, end, time.Now())
			})
			time.Sleep(2 * time.Second)
			f.set(nil, 0)
			time.Sleep(time.Minute + 10*time.Millisecond)
			assert.Equal(t, map[bool]int{false: 2, true: 1}[hangs], f.held(), hangs)
			assert.Equal(t, map[bool]int{true: 1}[hangs], lost)
			f.mu.Lock()
			f.renewals = nil
			f.mu.Unlock()
			time.Sleep(time.Minute + 10*time.Millisecond)
			synctest.Wait()
			assert.Len(t, f.renewals, 12, "they share calls")
			a.Return()
			b.Return()
		})
	}
}

// TestRenew_PlaceIsGone_IsLost: the process was stopped, or the limiter was reset.
func TestRenew_PlaceIsGone_IsLost(t *testing.T) {
	run(t, func(t *testing.T, k *Keeper, f *fake) {
		h, lost := f.grant(k, "a", true)
		f.mu.Lock()
		delete(f.ends, "a")
		f.mu.Unlock()
		time.Sleep(6 * time.Second)
		require.Len(t, lost(), 1)
		require.ErrorIs(t, lost()[0], ErrLost)
		require.ErrorContains(t, lost()[0], `"name"`)
		h.Return()
		assert.Empty(t, f.returns)
	})
}

// TestRenew_AnotherKeyHangs_IsOnTime: the keys may be of a master that hangs.
func TestRenew_AnotherKeyHangs_IsOnTime(t *testing.T) {
	run(t, func(t *testing.T, k *Keeper, f *fake) {
		hangs := &fake{ends: make(map[string]time.Time), lease: time.Second, latency: time.Hour}
		for i := range 100 {
			h := k.New()
			h.Add(Terms{"name", "hangs" + string(rune('a'+i)), time.Second, true, hangs}, "m", time.Now())
			h.Start(nil)
		}
		h, lost := f.grant(k, "a", true)
		time.Sleep(time.Minute - time.Millisecond)
		assert.Equal(t, 1, f.held())
		assert.Len(t, f.renewals, 11)
		h.Return()
		assert.Empty(t, lost())
	})
}

// TestRenew_ManyPlaces_TakeAThousandACall.
func TestRenew_ManyPlaces_TakeAThousandACall(t *testing.T) {
	run(t, func(t *testing.T, k *Keeper, f *fake) {
		var all []*Hold
		for i := range 2500 {
			h, _ := f.grant(k, string(rune('a'+i)), true)
			all = append(all, h)
		}
		time.Sleep(time.Minute + time.Millisecond)
		assert.Equal(t, 2500, f.held())
		assert.Equal(t, slices.Repeat([]int{1000, 1000, 500}, 12), f.renewals)
		for _, h := range all {
			h.Return()
		}
	})
}
