package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// sums has the totals of an Observer, beside the actual ones.
type sums struct {
	mu sync.Mutex
	numbers
}

type numbers struct {
	decided, granted     int
	calls, requests      int
	permits, leased      int64
	took                 time.Duration // of the last call
	alone                int           // of calls, on a goroutine of its own
	begun, ended, length int
	sent, carried        int
	wanted               int64
}

func (s *sums) now() numbers {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.numbers
}

type callerKey struct{}

func (s *sums) observer() *Observer {
	return &Observer{
		Decision: func(_ context.Context, d Decision) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.decided++
			if d.Granted {
				s.granted++
			}
		},
		RedisCall: func(ctx context.Context, c Call) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.calls++
			s.requests += c.Requests
			s.permits += c.Permits
			s.leased += c.Leased
			s.took = c.Took
			if ctx.Value(callerKey{}) == nil {
				s.alone++
			}
		},
		Waiting: func(_ context.Context, w Waiting) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if w.Change > 0 {
				s.begun++
			} else {
				s.ended++
			}
			s.length = max(s.length, w.Length)
		},
	}
}

// counted is a window that counts its calls to Redis.
type counted struct {
	*fake
	sums *sums
}

func (c *counted) Call(b *Batch) (*redisx.Script, []string) {
	c.sums.mu.Lock()
	defer c.sums.mu.Unlock()
	c.sums.sent++
	c.sums.carried += len(b.Requests)
	for _, r := range b.Requests {
		c.sums.wanted += r.Permits
	}
	return c.fake.Call(b)
}

func (f *fixture) counted(limit int64, every time.Duration) (*counted, *sums) {
	s := new(sums)
	c := &counted{open(New(Settings{Redis: f.Conn, Observer: s.observer()}), "limiter", limit, every), s}
	c.Protocol, c.Name = c, "another name"
	return c, s
}

// TestObserver_ManyCallers_EachEventIsReportedOnce: whether callers stay, leave or fail.
func TestObserver_ManyCallers_EachEventIsReportedOnce(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l, s := f.counted(20, 2*time.Second)
		random := rand.New(rand.NewPCG(5, 6))
		f.Latency.Store(int64(30 * time.Millisecond))
		var callers sync.WaitGroup
		var returned, granted, waits atomic.Int64
		for range 3000 {
			permits := 1 + random.Int64N(4)
			if random.IntN(40) == 0 {
				permits = 21
			}
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), callerKey{}, 1))
			if random.IntN(4) == 0 { // without a way to end, or with one that is used
				ctx = context.WithValue(context.Background(), callerKey{}, 1)
			} else if random.IntN(3) > 0 {
				time.AfterFunc(time.Duration(random.IntN(200))*time.Millisecond, cancel)
			}
			kind := random.IntN(3)
			callers.Go(func() {
				defer cancel()
				var ok bool
				switch kind {
				case 0:
					var deadline time.Time
					if permits%2 == 0 || ctx.Done() == nil {
						deadline = time.Now().Add(time.Duration(permits) * 100 * time.Millisecond)
					}
					waits.Add(1)
					ok, _ = l.Wait(ctx, permits, deadline)
				default:
					result, err := l.Try(ctx, Ask{Permits: permits})
					ok = result.Allowed && err == nil
				}
				returned.Add(1)
				if ok {
					granted.Add(1)
				}
			})
			switch random.IntN(60) {
			case 1:
				f.fail("OOM")
			case 2, 3, 4, 5:
				f.fail("")
			}
			if random.IntN(4) == 0 {
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
		}
		f.fail("")
		time.Sleep(time.Minute)
		callers.Wait()
		synctest.Wait()
		seen := s.now()
		assert.EqualValues(t, returned.Load(), seen.decided)
		assert.EqualValues(t, granted.Load(), seen.granted)
		assert.Positive(t, seen.granted)
		assert.Greater(t, seen.sent, 100)
		assert.Equal(t, seen.sent, seen.calls)
		assert.Equal(t, seen.carried, seen.requests)
		assert.Equal(t, seen.wanted, seen.permits)
		assert.Positive(t, seen.alone)
		assert.Less(t, seen.alone, seen.calls/2, "callers that were answered report the other calls")
		assert.EqualValues(t, waits.Load(), seen.begun)
		assert.EqualValues(t, waits.Load(), seen.ended)
		assert.Greater(t, seen.length, 5)
		assert.Empty(t, l.Engine.observer.waiting, "no state of callers that do not wait")
		assert.True(t, l.Engine.Idle())
	})
}

func TestObserver_CallIsRepeated_IsReportedOnce(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l, s := f.counted(20, time.Hour)
		f.fail(moving)
		time.AfterFunc(100*time.Millisecond, func() { f.fail("") })
		f.RequireGranted(l.fake, 3)
		assert.Greater(t, s.now().sent, 3)
		assert.Equal(t, 1, s.now().calls)
		assert.Equal(t, 1, s.now().requests)
		assert.EqualValues(t, 3, s.now().permits)
		assert.Greater(t, s.now().took, 100*time.Millisecond)
	})
}

// torn is a window whose replies break off after the granted requests.
type torn struct{ *fake }

func (l torn) Answer(b *Batch, _ rueidis.RedisMessage) (bool, error) {
	b.Requests[0].Allowed, b.Lease.Granted = true, 7
	return false, errors.New("torn")
}

func TestObserver_CallFails_NothingIsGranted(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l, s := f.counted(20, time.Hour)
		l.Protocol = torn{l.fake}
		_, err := l.Try(t.Context(), Ask{Permits: 1})
		require.EqualError(t, err, "torn")
		assert.Equal(t, 1, s.now().decided)
		assert.Equal(t, 1, s.now().calls)
		assert.Zero(t, s.now().granted)
		assert.Zero(t, s.now().leased)
	})
}

// TestObserver_CallOfOneCaller_IsReportedOnce: by its caller, if that stays.
func TestObserver_CallOfOneCaller_IsReportedOnce(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l, s := f.counted(20, time.Hour)
		take := func(ctx context.Context) error {
			_, err := Charge(ctx, &l.Limiter, 5, func(context.Context) (int, error) {
				time.Sleep(time.Second)
				return 0, nil
			})
			return err
		}
		caller := context.WithValue(t.Context(), callerKey{}, 1)
		require.NoError(t, take(caller))
		require.NoError(t, take(context.WithValue(context.Background(), callerKey{}, 1)))
		assert.Equal(t, 2, s.now().calls)
		assert.Zero(t, s.now().alone)
		leaves, leave := context.WithTimeout(caller, time.Second/2)
		defer leave()
		require.ErrorIs(t, take(leaves), context.DeadlineExceeded)
		require.ErrorIs(t, take(leaves), context.DeadlineExceeded)
		assert.Equal(t, 2, s.now().calls)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, 3, s.now().calls)
		assert.Equal(t, 1, s.now().alone)
		assert.EqualValues(t, 15, s.now().permits)
	})
}

func TestObserver_NoHooks_NothingIsReported(t *testing.T) {
	assert.False(t, New(Settings{}).Observed())
	assert.False(t, New(Settings{Observer: new(Observer)}).Observed())
	withServer(t, func(t *testing.T, f *fixture) {
		var seen atomic.Int64
		for _, o := range []*Observer{
			{Decision: func(context.Context, Decision) { seen.Add(1) }},
			{RedisCall: func(context.Context, Call) { seen.Add(1) }},
			{Waiting: func(context.Context, Waiting) { seen.Add(1) }},
		} {
			l := open(New(Settings{Redis: f.Conn, Observer: o}), "limiter", 100, time.Hour)
			f.RequireGranted(l, 1)
			_, err := l.Wait(t.Context(), 1, time.Time{})
			require.NoError(t, err)
			_, err = Charge(t.Context(), &l.Limiter, 1, func(context.Context) (int, error) { return 0, nil })
			require.NoError(t, err)
		}
		assert.EqualValues(t, 2+3+2, seen.Load())
	})
}
