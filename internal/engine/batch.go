package engine

import (
	"cmp"
	"hash/maphash"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

const (
	// MaxRequests is the largest number of requests in one call. It bounds the time of a call on
	// the server.
	MaxRequests = 1024
	// MaxPermits is the largest number of permits of a request, and of all requests of a call: the
	// most that one member of Redisson's layout can hold.
	MaxPermits = 1<<32 - 1
)

// Batch is one call: requests in, answers out. While it collects requests, its entry guards it. Then it belongs to the
// goroutine that sends it; the entry still guards the states of the requests. The batch of a lone call has no entry.
type Batch struct {
	Requests  []*Request
	AllDetail bool     // all answers have all fields
	Prefetch  Prefetch // for later callers
	QueueCall

	Run // set by Protocol.Prepare

	permits int64         // of all requests, while it collects them
	callers atomic.Int32  // that have not left; for the call of a queue, all waiters
	done    chan struct{} // wakes callers: the end of a lone call sends to it, that of a shared call closes it; or nil

	Replied  time.Time      // when the last reply arrived
	callInfo *RedisCallInfo // what a hook gets, until a caller or a goroutine takes it; nil without that hook
	err      error          // of the call
	BatchResult
}

// BatchResult is the result of the call of a batch.
type BatchResult struct {
	knowledge
	Reply rueidis.RedisMessage // for Protocol.Receipt

	// Unknown reports that the call has failed after it may have run, so what it granted is unknown.
	Unknown bool

	Lost        []*Request // granted, and their callers have left
	LostPermits int64      // of these
	Granted     int64      // the permits of all granted requests, Lost included
}

// QueueCall is the part of a Batch that is used only for the call of a queue.
type QueueCall struct {
	Ordered  bool          // it is one: if a request is denied, those behind it are denied too
	Backdate time.Duration // how far back grants may be dated, since the callers waited then
	Claim    Claim

	// The reply.
	Rivals Rivals
	Turn   bool // the lag of the Forecast is a turn of other programs: a deadline of a waiter does not shorten it
}

// Claim is what a call for waiters says of their Client, since the Clients with waiters share the permits of
// a limiter.
type Claim struct {
	ID   string        // of the queue; "" for a call that does not say it
	Late time.Duration // how late the next call may be
	Rest int64         // the permits of the waiters that are not in the call
}

// Rivals is what a reply says of the waiters of other Clients.
type Rivals struct {
	Others bool          // there are some
	Slow   time.Duration // how late the calls of the Client may be for which permits are held; 0 if none are
	Moved  time.Duration // how much later than by its arguments the call was dated
}

// Prefetch is permits that one call takes in advance. Until the prefetch ends, this process grants them
// without a call. The script dates them at the end of the prefetch, so that each permit stays taken
// for an interval after its last possible use.
type Prefetch struct {
	// The request.
	Permits int64
	Span    time.Duration // the longest duration; 0 for no prefetch

	// The reply.
	Granted int64         // 0 for none
	Lasts   time.Duration // at most Span
	Limit   int64         // as in a Decision
	Free    int64         // permits that are free in Redis
	Reset   time.Duration // from the call until all permits are free
	Parts   []Decision    // of each part, for an Ask with Each; nil without parts
	Refund  receipt.Refund

	revokes uint64    // of the prefetchSet, when it was asked for
	sent    time.Time // when the call was sent: the prefetch began then at the earliest
	arrived time.Time // when the reply arrived
	unused  int64     // permits that are granted to no caller yet
}

// Wants returns the permits that all requests can be granted, and whether a request needs more of its Decision than
// Allowed.
func (b *Batch) Wants() (permits int64, detail bool) {
	detail = b.AllDetail
	for _, r := range b.Requests {
		permits += r.Most()
		detail = detail || r.Detail
	}
	return permits, detail
}

// GrantAll grants every request of a batch. left permits remain after the last one.
func (b *Batch) GrantAll(left int64) {
	for i := len(b.Requests) - 1; i >= 0; i-- {
		r := b.Requests[i]
		r.Granted = r.Most()
		r.Decision = Decision{Allowed: true, Remaining: max(0, left)}
		left += r.Granted
	}
}

// allGranted stands for the letters of a batch of which every request was granted.
const allGranted = "*"

// AnswerBy sets the answers of a batch, and its Forecast, by the reply of a script: a letter for each
// request, as internal/include/decide.lua has them, or allGranted. above returns the error of a request
// above the limit. It reports whether the letters are those of the batch.
func (b *Batch) AnswerBy(f Forecast, letters string, above func(permits, limit int64) error) bool {
	var part int64
	if letters != allGranted {
		var ok bool
		if letters, part, ok = b.readLetters(letters); !ok {
			return false
		}
	}
	b.Forecast = f
	var later int64 // permits granted behind the request
	for i := len(b.Requests) - 1; i >= 0; i-- {
		r, letter := b.Requests[i], byte('g')
		if letters != allGranted {
			letter = letters[i]
		}
		switch letter {
		case 'g', 'p':
			if r.Granted = r.Most(); letter == 'p' {
				r.Granted = part
			}
			if r.Decision = f.Granted(later); r.Each {
				r.Parts = f.GrantedParts(later)
			}
			later += r.Granted
		case 'x':
			r.Decision, r.Err = Decision{}, above(r.Permits, f.Limit())
		default:
			// RetryAfter is that of the end of the call, so Remaining is too.
			if r.Decision, _ = f.Denied(r.Permits); r.Each {
				r.Parts = f.Parts(r.Permits)
			}
			if b.Denied == 0 || r.Permits < b.Denied {
				b.Denied = r.Permits
			}
		}
	}
	return true
}

// readLetters splits letters from the permits of the one with p, which was granted in part. It reports whether
// they are valid, with one for each request.
func (b *Batch) readLetters(text string) (letters string, part int64, ok bool) {
	letters, last, _ := strings.Cut(text, " ")
	part, err := strconv.ParseInt(cmp.Or(last, "0"), 10, 64)
	if err != nil || len(letters) != len(b.Requests) {
		return "", 0, false
	}
	at := strings.IndexByte(letters, 'p')
	if at < 0 {
		return letters, part, part == 0
	}
	return letters, part, part >= b.Requests[at].Permits && part <= b.Requests[at].Most()
}

// Runs returns the permits of each request, run-length encoded: "1*200 3*1". A request for up to 5
// permits is "~5*1".
func Runs(requests []*Request) string {
	var text []byte
	for i := 0; i < len(requests); {
		run, r := i+1, requests[i]
		for run < len(requests) && requests[run].Permits == r.Permits && requests[run].UpTo == r.UpTo {
			run++
		}
		if i > 0 {
			text = append(text, ' ')
		}
		if r.UpTo > r.Permits {
			text = append(text, '~')
		}
		text = strconv.AppendInt(text, r.Most(), 10)
		text = append(text, '*')
		text = strconv.AppendInt(text, int64(run-i), 10)
		i = run
	}
	return string(text)
}

// Most returns the largest number of permits that can be granted.
func (a Ask) Most() int64 { return max(a.Permits, a.UpTo) }

// Request is one caller's request for permits, and later its result. Protocol.Answer sets the result
// and Err.
type Request struct {
	Ask
	Result
	Err error

	state    atomic.Int32   // one of the states below
	batch    *Batch         // that it is part of; nil for a waiter and a lone request; guarded by the entry
	callInfo *RedisCallInfo // of its call, if its caller is to report that; or nil
}

// The states of a request. The end of its call and a caller that leaves may meet: the first of the two
// changes inFlight. All other changes of a request that an entry knows are made with the entry locked.
const (
	queued    = iota // not yet in a call
	inFlight         // in a call that is in flight
	answered         // the result is final
	abandoned        // the caller has left: permits that arrive for it are refunded
)

// finish makes the result of a request final, with the error of its call. It reports whether permits
// arrived for a caller that has left.
func (r *Request) finish(err error) (lost bool) {
	if err != nil {
		r.Err = err
	}
	for {
		state := r.state.Load()
		if state == abandoned {
			return err == nil && r.Allowed
		}
		if r.state.CompareAndSwap(state, answered) {
			return false
		}
	}
}

// seed is that of all hashes of IDs and keys.
var seed = maphash.MakeSeed()

// activities counts the lone calls and the entries, by a hash of their IDs. crowdedBit is set beside that number
// if the last shared call of a limiter had several callers, or was not its only call. Then callers
// share calls at once.
type activities [1 << 14]atomic.Int32

const crowdedBit = 1 << 30

// counterOf returns the counter of an ID. Few others have the same.
func (a *activities) counterOf(id string) *atomic.Int32 {
	return &a[maphash.String(seed, id)%uint64(len(a))]
}
