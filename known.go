package rratelimiter

import (
	"hash/maphash"
	"strconv"
	"sync/atomic"
	"time"
)

// known is what Redis told last of a limiter. It makes a call cheaper, and no answer goes by it: the script finds out where it no
// longer holds.
type known struct {
	interval atomic.Int64 // milliseconds, or unasked before the first call, or unknown until it is told
	shared   atomic.Bool  // the limiter is one that all share
}

const (
	unasked = 0
	unknown = -1
	mixed   = -2
)

// alike is what a Client knows of its limiters as a whole: the interval that was told last, unasked before, or mixed once one of them was
// not one that all share. A limiter that was not asked for yet is taken for one like the others, since a Limiter may be opened for
// each call, and many users mostly have one rate.
type alike struct {
	interval atomic.Int64
	denied   denied
}

// denied is the names of whose last call somebody was denied, a bit for each hash. What is denied is mostly denied again, so a call is
// expected to be granted, as grantScript is for, where none of the call before was denied. By name, since a grant that was expected
// wrongly writes: who is granted elsewhere is not to make those ask again who have remembered that this limiter is full.
type denied [256]atomic.Uint32

var namesSeed = maphash.MakeSeed()

func (d *denied) at(name string) (word *atomic.Uint32, bit uint32) {
	const bits = 32
	hash := maphash.String(namesSeed, name)
	return &d[hash/bits%uint64(len(d))], 1 << (hash % bits)
}

// has says whether somebody was denied last.
func (d *denied) has(name string) bool {
	word, bit := d.at(name)
	return word.Load()&bit != 0
}

// saw keeps whether somebody was denied.
func (d *denied) saw(name string, denied bool) {
	switch word, bit := d.at(name); {
	case (word.Load()&bit != 0) == denied:
	case denied:
		word.Or(bit)
	default:
		word.And(^bit)
	}
}

// guess is the interval of a limiter, as far as it is known, and whether it is one that all share.
func (p *protocol) guess() (interval int64, shared bool) {
	if interval = p.known.interval.Load(); interval != unasked {
		return interval, p.known.shared.Load()
	}
	if interval = p.client.alike.interval.Load(); interval > unasked {
		return interval, true
	}
	return unasked, false
}

// learn keeps what Redis told of a limiter.
func (p *protocol) learn(interval int64, shared bool) {
	set := func(known *atomic.Int64, now int64) {
		if known.Load() != now {
			known.Store(now)
		}
	}
	set(&p.known.interval, interval)
	if p.known.shared.Load() != shared {
		p.known.shared.Store(shared)
	}
	all := &p.client.alike.interval
	if !shared {
		set(all, mixed)
	} else if old := all.Load(); old != mixed && old != interval {
		all.CompareAndSwap(old, interval) // another reply may say that they are mixed
	}
}

// needsAll keeps that a limiter was taken for one that all share, and is none.
func (p *protocol) needsAll() {
	p.known.shared.Store(false)
	p.client.alike.interval.Store(mixed)
}

// appendGuess appends the time less the interval, where both are known. A wrong guess makes the script tell of the limiter, which
// whoever asks a second time wants to know.
func (p *protocol) appendGuess(text []byte, now time.Time) []byte {
	switch interval, _ := p.guess(); {
	case interval == unasked:
		p.known.interval.CompareAndSwap(unasked, unknown)
		return text
	case interval == unknown:
		return append(text, '0')
	case p.client.engine.ServerTime():
		return text
	default:
		return strconv.AppendInt(text, now.UnixMilli()-interval, 10)
	}
}
