package outages

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
)

// The Go callers, in the ledger.
const (
	waits = "waits" // for permits
	tries = "tries" // to take free ones
)

// warmUp takes the permits of one interval evenly, so that they return evenly.
func (l *Load) warmUp() {
	const steps = 50
	tick := time.NewTicker(Interval / steps)
	defer tick.Stop()
	for range steps {
		<-tick.C
		granted, err := l.goBooks.Time(tries, Rate/steps, func() (bool, error) {
			return l.limiter.TryAcquire(context.Background(), Rate/steps)
		})
		require.NoError(l.t, err)
		require.True(l.t, granted)
	}
}

// goCaller takes permits again and again, by the call that i selects, each time with a context that
// ends after within to twice as long. It pauses after each call. Without pauses, Go would take all
// permits that return at once, as after a loss of data.
func (l *Load) goCaller(i int) {
	random := rand.New(rand.NewPCG(uint64(i), 0))
	who := tries
	if everycall.Waits(i) {
		who = waits
	}
	for !l.stopped() {
		permits := 1 + random.Int64N(3)
		deadline := time.Now().Add(within + time.Duration(random.Int64N(int64(within))))
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		_, _ = l.goBooks.Time(who, permits, func() (bool, error) {
			granted, err := everycall.Acquire(ctx, l.limiter, i, permits, within)
			if isDenial(err) {
				err = nil
			}
			return granted, err
		})
		by := time.Since(deadline)
		l.latest.Add(by)
		if by > late {
			l.lateCalls.Add(1)
		}
		cancel()
		time.Sleep(pause + time.Duration(random.Int64N(int64(10*time.Millisecond))))
	}
}

// watchMachine records when this process or the limiter's server stalls, and how often a plain command is
// answered. It sends that over its own connections.
func (l *Load) watchMachine(on rueidis.ClientOption) {
	on.DialCtxFn = nil
	bare, err := rueidis.NewClient(on)
	if err != nil {
		l.t.Errorf("watchMachine: %v", err)
		return
	}
	defer bare.Close()
	for begun := time.Now(); !l.stopped(); {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if bare.Do(ctx, bare.B().Exists().Key(Name).Build()).Error() == nil {
			l.plain = append(l.plain, time.Now())
		}
		cancel()
		answered := time.Now()
		time.Sleep(pause)
		ended := time.Now()
		l.asleep = max(l.asleep, ended.Sub(answered)-pause)
		if ended.Sub(begun) > stall {
			l.stalls = append(l.stalls, span{begun, ended})
		}
		begun = ended
	}
}

// javaCrowd runs the crowd second by second, since a crowd ends only by its own clock.
func (l *Load) javaCrowd(crowd oracle.Crowd) {
	crowd.Duration = time.Second
	for !l.stopped() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		err := l.java.Crowd(ctx, crowd, l.javaBooks)
		cancel()
		if err != nil {
			l.t.Errorf("the Java side has ended: %v", err)
			return
		}
	}
}

// classifyGo returns the kind of an error of the load's limiter.
func classifyGo(err error) string { return Kind(err, Name) }

// isDenial reports whether an error says that the permits cannot be had before the deadline. Redis has
// replied, and the limiter is exhausted: callers that wait ask a few milliseconds late, so those that
// only try, and Java, can take all permits before them.
func isDenial(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "cannot be had before the deadline")
}

// classifyJava returns the kind of an exception of Redisson: the word of Redis or the class.
func classifyJava(err error) string {
	text := strings.TrimPrefix(err.Error(), ": ")
	if strings.Contains(text, "RateLimiter is not initialized") {
		return notInitialized
	}
	for _, word := range redisWords {
		if strings.Contains(text, word) {
			return word
		}
	}
	class, _, _ := strings.Cut(text, ":")
	return class[strings.LastIndexByte(class, '.')+1:]
}
