package week

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

// java is a Java program whose threads loop on tryAcquire(1, timeout) of Redisson. They take permits by
// this library, at the times at which Redisson takes them. Package crowd runs Redisson itself.
type java struct {
	limiter *rratelimiter.Limiter
	log     *log
}

// javaTimeout is longer than an interval, and no multiple of it, so that no thread begins by chance when permits are free.
const javaTimeout = 5 * interval / 2

// loop is a thread of the program.
func (j *java) loop(ctx context.Context) {
	for ctx.Err() == nil {
		end := time.Now().Add(javaTimeout)
		for {
			wait, granted := j.try()
			if granted {
				if ctx.Err() == nil {
					j.log.grant(ofJava)
				} else {
					j.log.grant(neither)
				}
				time.Sleep(think())
				break
			}
			if left := time.Until(end); wait > left {
				time.Sleep(left + late())
				break
			}
			time.Sleep(wait + late())
		}
	}
}

// try is tryAcquire(1). It returns after which time Redisson tries again: 100 ms for a limiter without
// a rate.
func (j *java) try() (wait time.Duration, granted bool) {
	decision, err := j.limiter.Take(context.Background(), 1)
	if errors.Is(err, rratelimiter.ErrNotInitialized) {
		return 100 * time.Millisecond, false
	}
	if err != nil {
		panic(err)
	}
	return decision.RetryAfter + 3*time.Millisecond, decision.Allowed
}

// late is how late a timer of Redisson is.
func late() time.Duration { return 8*time.Millisecond + rand.N(18*time.Millisecond) }

// think is the work of a caller between two calls.
func think() time.Duration { return time.Millisecond + rand.N(2*time.Millisecond) }
