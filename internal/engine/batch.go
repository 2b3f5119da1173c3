package engine

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

const (
	// MostRequests is how many requests go in one call at most, so that no call keeps the server for long, whoever asks.
	MostRequests = 1024
	// MostPermits is how many permits a request asks for at most, and a call of several: Redisson's grant holds no more.
	MostPermits = 1<<32 - 1
)

// Ask is what a caller wants.
type Ask struct {
	Permits int64
	Detail  bool          // all of Answer, not Allowed alone
	Each    bool          // Result.Parts as well
	Within  time.Duration // for a reservation: the longest delay
}

// Result is what came of it.
type Result struct {
	Answer
	Extra any // for a request with Each the []Answer of its parts, for a reservation what the Protocol makes of it
	From  Source
}

// Parts is what each part says, for a request with Each.
func (r Result) Parts() []Answer {
	parts, _ := r.Extra.([]Answer)
	return parts
}

// Answer is what a request came to.
type Answer struct {
	Allowed    bool
	Limit      int64
	Remaining  int64
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// Request is one caller's wish for permits, and in the end its answer.
type Request struct {
	Permits int64
	Detail  bool // as in Ask, as is Each
	Each    bool
	state   requestState // guarded by the entry, as is batch
	From    Source
	Answer
	batch *Batch // that it gathers in; nil for those who wait in line

	Within time.Duration // as in Ask
	Extra  any           // as in Result
	Err    error
	call   *Call // that this caller is to tell of, or nil
}

type requestState uint8

const (
	queued    requestState = iota // not yet in a call
	inFlight                      // in a call that is under way
	answered                      // the result is final
	abandoned                     // the caller has gone: what arrives for it goes back
)

// result returns a request's answer to its caller.
func (r *Request) result() (Result, error) {
	return Result{r.Answer, r.Extra, r.From}, r.Err
}

// deliver makes a request's answer final, with the error of its call. It reports whether permits arrived for a caller that has gone.
// The entry is locked.
func (r *Request) deliver(err error) (lost bool) {
	if r.state == abandoned {
		return err == nil && r.Allowed
	}
	if err != nil {
		r.Err = err
	}
	r.state = answered
	return false
}

// Batch is one call: requests in, answers out. While it gathers its entry guards it; from then on it is the caller's of
// acquire, but for the states of its requests.
type Batch struct {
	Requests []*Request
	Ordered  bool // behind a request that is not granted, none is
	Full     bool // the answers tell all, whoever asks

	// What Protocol.Arguments made: Text is for it to use again.
	Args []string
	Text []byte

	// What the reply told.
	Reply    rueidis.RedisMessage // itself, for Protocol.Refund
	Forecast Forecast             // nil where it told nothing but answers
	Denied   int64                // the fewest permits that were denied, 0 for none
	AllKeys  bool                 // the call was not given all that the script needs

	Lease Lease // for callers to come

	// What came for callers that had gone, and, where that is anything, how many permits that is, and were granted in all.
	Lost        []*Request
	LostPermits int64
	Granted     int64

	permits  int64         // of those that gather
	live     int           // that gather and have not been abandoned
	callers  int32         // atomic: that have not gone: of a call under way its own, of a queue's all that wait
	answered chan struct{} // closed once the requests have their answers; nil where nobody listens
	next     *Batch        // of those that gather
	prev     *Batch

	sent  time.Time // the moment that the call began
	dated time.Time // the same by the limiter's clock, in whole milliseconds as scripts get it
	asked time.Time // the moment that Forecast counts from
	call  *Call     // that nobody has told of yet, where that is wanted

	// As of when it left.
	version uint64 // of the limiter, for denials
	changes uint64 // of what is leased
}

// Wants returns how many permits the requests ask for, and whether a caller asks for more than whether they were granted.
func (b *Batch) Wants() (permits int64, detail bool) {
	detail = b.Full
	for _, r := range b.Requests {
		permits += r.Permits
		detail = detail || r.Detail
	}
	return permits, detail
}

// wanted reports whether a batch is to be sent: it has callers left, or brings a lease.
func (b *Batch) wanted() bool { return len(b.Requests) > 0 || b.Lease.Span > 0 }

// GrantAll answers a batch of which every request was granted.
func (b *Batch) GrantAll(left int64, answer Answer) {
	answer.Allowed = true
	for i := len(b.Requests) - 1; i >= 0; i-- {
		r := b.Requests[i]
		r.Answer = answer
		r.Remaining = max(0, left)
		left += r.Permits
	}
}

// clear resets a batch for reuse.
func (b *Batch) clear() {
	clear(b.Requests)
	b.Requests, b.permits, b.live, b.answered, b.Lease = b.Requests[:0], 0, 0, nil, Lease{}
	b.forget()
}

// forget drops the reply to an earlier call.
func (b *Batch) forget() {
	clear(b.Lost)
	b.Reply, b.Forecast, b.Denied, b.AllKeys, b.Lost, b.LostPermits, b.Granted = rueidis.RedisMessage{}, nil, 0, false, b.Lost[:0], 0, 0
}

// AppendRuns appends the permits of each request, with equal neighbours told once: "1*200 3*1".
func AppendRuns(text []byte, requests []*Request) []byte {
	for i := 0; i < len(requests); {
		run := i + 1
		for run < len(requests) && requests[run].Permits == requests[i].Permits {
			run++
		}
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, requests[i].Permits, 10)
		text = append(text, '*')
		text = strconv.AppendInt(text, int64(run-i), 10)
		i = run
	}
	return text
}

// count adds up the permits that were granted, if some were lost, before the callers are woken.
func (b *Batch) count() {
	if len(b.Lost) == 0 {
		return
	}
	for _, r := range b.Lost {
		b.LostPermits += r.Permits
	}
	for _, r := range b.Requests {
		if r.Allowed {
			b.Granted += r.Permits
		}
	}
}

// Lease is permits that one call takes for callers to come, who are answered by this process until it ends. A script dates them at
// the end, so that they stay taken until an interval after the last moment at which one of them can be used.
type Lease struct {
	// What is asked for.
	Permits int64
	Span    time.Duration // for so long at most; 0 asks for none

	// What came of it.
	Granted int64         // 0 for none
	Lasts   time.Duration // at most Span
	Limit   int64         // as an Answer has it
	Free    int64         // that nobody has, at Redis
	Reset   time.Duration // from the call on, until every permit is free again
	Parts   []Answer      // the same of each part, for an Ask with Each; nil where there are none
	Return  func(ctx context.Context, permits int64) error
}

// Forecast is what a reply tells of the time after it. It does not change.
type Forecast interface {
	// Limit is the most permits that can ever be granted at once.
	Limit() int64

	// Free is how many permits every part had free, below 0 where more were taken than there are.
	Free() int64

	// Denied is the answer to a request for permits that are not free, at the moment of the reply. It says false where the
	// reply does not tell.
	Denied(permits int64) (Answer, bool)

	// Parts is what each part says of such a request, for an Ask with Each; nil where there are none.
	Parts(permits int64) []Answer

	// Earliest is how long after the reply the last of so many permits can be granted at the earliest, where they are asked
	// for one after another: Never, or a time that may be too early, but not too late.
	Earliest(wanted int64) time.Duration

	// Worse says whether somebody who could have been served by another forecast may wait in vain by this one, since the
	// limiter itself has changed.
	Worse(than Forecast) bool
}

// Never is longer than anything lasts.
const Never = time.Duration(1<<63 - 1)
