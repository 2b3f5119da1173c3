package engine

import (
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

const (
	// MostRequests is how many requests go in one call at most, so that no call keeps the server for long, whoever asks.
	MostRequests = 1024
	// MostPermits is how many permits a call of several requests asks for at most: Redisson's grant holds no more.
	MostPermits = 1<<32 - 1
)

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
	Reply   rueidis.RedisMessage // itself, for Protocol.GiveBack
	Outlook Outlook              // nil where it told nothing but answers
	Denied  int64                // the fewest permits that were denied, 0 for none
	AllKeys bool                 // the call was not given all that the script needs

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
	asked time.Time // the moment that Outlook counts from
	call  *Call     // that nobody has told of yet, where that is wanted

	// As of when it left.
	version uint64 // of the limiter, for denials
	changes uint64 // of what is leased
}

// Wants says how many permits the requests are for, and whether anybody wants to know more than whether they were granted.
func (b *Batch) Wants() (permits int64, detail bool) {
	detail = b.Full
	for _, r := range b.Requests {
		permits += r.Permits
		detail = detail || r.Detail
	}
	return permits, detail
}

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

// clear makes a batch as good as new.
func (b *Batch) clear() {
	clear(b.Requests)
	b.Requests, b.permits, b.live, b.answered, b.Lease = b.Requests[:0], 0, 0, nil, Lease{}
	b.forget()
}

// forget drops what a call said.
func (b *Batch) forget() {
	clear(b.Lost)
	b.Reply, b.Outlook, b.Denied, b.AllKeys, b.Lost, b.LostPermits, b.Granted = rueidis.RedisMessage{}, nil, 0, false, b.Lost[:0], 0, 0
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

// count sums up what was granted where something was lost, before the callers are woken.
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
