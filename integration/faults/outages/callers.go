package outages

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
)

// warmUp takes the permits of one interval evenly. From then on they come back evenly, rather than
// all at once.
func (l *Load) warmUp() {
	const steps = 50
	tick := time.NewTicker(Interval / steps)
	defer tick.Stop()
	for range steps {
		<-tick.C
		granted, err := l.goBooks.Time("go", Rate/steps, func() (bool, error) {
			return l.limiter.TryAcquire(context.Background(), Rate/steps)
		})
		require.NoError(l.t, err)
		require.True(l.t, granted)
	}
}

// goCaller takes permits again and again, by the call that its number stands for, each time with a
// context that ends within 1 to 2 s. It pauses after each call, as a program that has something else
// to do. Without pauses, Go would take all permits that return at once, as after a loss of data.
func (l *Load) goCaller(i int) {
	random := rand.New(rand.NewPCG(uint64(i), 0))
	for !l.stopped() {
		permits := 1 + random.Int64N(3)
		deadline := time.Now().Add(time.Second + time.Duration(random.Int64N(int64(time.Second))))
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		_, _ = l.goBooks.Time("go", permits, func() (bool, error) {
			return everycall.Acquire(ctx, l.limiter, i, permits, within)
		})
		l.noteLateness(time.Since(deadline))
		cancel()
		time.Sleep(pause + time.Duration(random.Int64N(int64(10*time.Millisecond))))
	}
}

// watchMachine records when this process, or the server of the limiter, stalls. It sends a command
// that has nothing to do with limiters, over connections of its own.
func (l *Load) watchMachine(on rueidis.ClientOption) {
	on.DialCtxFn = nil
	bare, err := rueidis.NewClient(on)
	if err != nil {
		l.t.Errorf("a client to watch the machine with: %v", err)
		return
	}
	defer bare.Close()
	for !l.stopped() {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = bare.Do(ctx, bare.B().Exists().Key(Name).Build()).Error()
		cancel()
		time.Sleep(pause)
		if ended := time.Now(); ended.Sub(begun) > stall {
			l.stalls = append(l.stalls, span{begun, ended})
		}
	}
}

func (l *Load) noteLateness(by time.Duration) {
	if by > late {
		l.lateCalls.Add(1)
	}
	for {
		latest := l.latest.Load()
		if int64(by) <= latest || l.latest.CompareAndSwap(latest, int64(by)) {
			return
		}
	}
}

// javaCrowd lets the crowd loose second by second, since a crowd ends by its own clock alone.
func (l *Load) javaCrowd(crowd oracle.Crowd) {
	crowd.Duration = time.Second
	for !l.stopped() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		got, err := l.java.Crowd(ctx, crowd)
		cancel()
		if err != nil {
			l.t.Errorf("the Java side has ended: %v", err)
			return
		}
		got.Book(l.javaBooks)
	}
}
