package rratelimiter

import (
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// grantAll answers a batch of which every request was granted.
func (b *batch) grantAll() {
	left := b.free
	for i := len(b.requests) - 1; i >= 0; i-- {
		r := b.requests[i]
		r.decision = Decision{Allowed: true, Remaining: max(0, left)}
		left += r.permits
	}
}

// allGranted stands for the letters of a batch of which every request was granted.
const allGranted = "*"

// answer answers a batch from a reply that tells the requests apart.
func (l *Limiter) answer(b *batch, reply []rueidis.RedisMessage) error {
	const head = 7
	if len(reply) < head || len(reply)%2 != head%2 {
		return l.unexpected(reply[0])
	}
	var numbers [head - 1]int64
	for i := range numbers {
		number, err := reply[i].AsInt64()
		if err != nil {
			return l.unexpected(reply[i])
		}
		numbers[i] = number
	}
	free, rate, interval, reset := numbers[1], numbers[2], millis(numbers[3]), millis(numbers[4])
	letters, err := reply[head-1].ToString()
	if err != nil || letters != allGranted && len(letters) != len(b.requests) {
		return l.unexpected(reply[head-1])
	}
	for pair := head; pair < len(reply); pair += 2 {
		after, err := reply[pair].AsInt64()
		if err != nil {
			return l.unexpected(reply[pair])
		}
		permits, err := reply[pair+1].AsInt64()
		if err != nil {
			return l.unexpected(reply[pair+1])
		}
		b.returns = append(b.returns, returning{millis(after), permits})
	}
	b.free, b.rate, b.interval, b.reset, b.now = free, rate, interval, reset, numbers[5]
	if letters == allGranted {
		b.grantAll()
	} else {
		left := free
		for i := len(b.requests) - 1; i >= 0; i-- {
			r := b.requests[i]
			r.decision = Decision{Allowed: letters[i] == 'g', Remaining: max(0, left)}
			switch letters[i] {
			case 'g':
				left += r.permits
			case 'x':
				r.err = l.aboveRate(r.permits, rate)
			default:
				r.decision.RetryAfter = freeAfter(b.returns, r.permits-free)
				if b.denied == 0 || r.permits < b.denied {
					b.denied = r.permits
				}
			}
		}
	}
	for _, r := range b.requests {
		if r.err == nil {
			r.decision.Limit, r.decision.ResetAfter = rate, reset
		} else {
			r.decision = Decision{}
		}
	}
	return nil
}

func (l *Limiter) aboveRate(permits, rate int64) error {
	return fmt.Errorf("%w: %d requested, the rate of %q is %d", ErrPermitsExceedRate, permits, l.name, rate)
}

// freeAfter says how long it takes until so many permits have come back, or where only the first returns are known,
// how long at least.
func freeAfter(returns []returning, permits int64) time.Duration {
	var after time.Duration
	for _, r := range returns {
		if permits <= 0 {
			break
		}
		after, permits = r.after, permits-r.permits
	}
	return after
}

// millis is a number of milliseconds as a duration, the longest there is where it is more.
func millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}
