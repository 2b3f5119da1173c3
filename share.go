package rratelimiter

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// How many calls for one limiter may be in flight at once, and when one leaves, follows from what is seen.
//
// On a fast link two calls keep the server busy, and more make all of them smaller. The callers that a reply woke come
// back within moments, so a call waits for them, giving way as long as more come. It does not wait for more than fullBatch,
// or all callers would end up in one call and idle together while it is under way. Where a call takes long, its callers
// must not wait for the one before it, and more of them fly. Decisions a second against one call for each decision,
// by callers (medians of short runs, two cores):
//
//	                                         4      256    2048
//	2 calls of 128, patience 3            1.58     14.7    24.0
//	2 calls of 256, patience 1            1.56     13.8    25.1
//	3 calls of 128, patience 3            1.47     14.9    25.4
//	1 call of 256, patience 1             1.35     13.0    23.4
//	2 ms link: 1 call of 128                       1.06     7.2
//	2 ms link: 2 calls of 128                      1.54     6.0
//	2 ms link: 8 calls of 128                      1.85     8.0
//	2 ms link: 16 calls of 128                     1.72     7.8
//
// Three calls cost the server more for each decision than they gain.
//
// make bench measures it.
const (
	maxCalls     = 8                // in flight at once, where calls are slow
	maxFastCalls = 2                // in flight at once, where they are fast
	slowCall     = time.Millisecond // the last call took as long or longer: calls are slow
	fullBatch    = 128              // callers with whom a call no longer waits for those about to join
	patience     = 3                // so often nobody came while a call gave way: it leaves
)

// request is one caller's wish for permits, and in the end its answer.
type request struct {
	permits int64
	detail  bool // the caller wants all of decision, not Allowed alone

	state    requestState // guarded by Client.mu
	decision Decision
	err      error
}

type requestState uint8

const (
	queued    requestState = iota // waits for a call that takes it along
	flying                        // in a call that is under way
	answered                      // decision and err are final
	abandoned                     // the caller has gone: what arrives for it goes back
)

// gate gathers the callers of one limiter's name while calls for it are under way. It exists only for so long.
// Client.mu guards it.
type gate struct {
	waiting   []*request    // for the next call, in order of arrival
	wanted    int64         // the permits of all that wait
	answers   chan struct{} // closed once those that wait have their answers; nil where nobody listens
	calls     int           // under way, the one that gathers included
	gathering bool          // a call is about to take waiting along
}

// pools keep what a call needs for the calls after it. They are a Client's own: a flight must not come up in another
// synctest bubble.
type pools struct {
	requests, gates, flights sync.Pool
}

func (p *pools) init() {
	p.requests.New = func() any { return new(request) }
	p.gates.New = func() any { return new(gate) }
	p.flights.New = func() any {
		f := &flight{args: make([]string, 0, cursorArg+1)}
		f.start = func() { f.fly(false) }
		return f
	}
}

// tryAcquire asks for permits once, together with whoever asks at the same moment.
func (l *Limiter) tryAcquire(ctx context.Context, permits int64, detail bool) (Decision, error) {
	if err := l.checkAcquire(ctx, permits); err != nil {
		return Decision{}, err
	}
	c, name := l.client, l.keys[configKey]
	if decision, denied := l.deny(ctx, permits); denied {
		return decision, nil
	}
	gone := ctx.Done()
	r := c.pools.requests.Get().(*request)
	r.permits, r.detail = permits, detail
	c.mu.Lock()
	g := c.gates[name]
	switch {
	case g == nil:
		g = c.pools.gates.Get().(*gate)
		c.gates[name] = g
	case permits > maxPermits-g.wanted:
		// More than one call can add up: it goes alone.
		g = c.pools.gates.Get().(*gate)
	}
	g.waiting = append(g.waiting, r)
	g.wanted += permits
	lead := !g.gathering && g.calls < c.callLimit()
	if lead {
		g.gathering = true
		g.calls++
	}
	if g.answers == nil && (!lead || gone != nil) {
		g.answers = make(chan struct{})
	}
	answers := g.answers
	c.mu.Unlock()

	switch {
	case lead && gone == nil:
		l.flight(ctx, g).fly(true) // until this request is answered
	case lead:
		go l.flight(context.WithoutCancel(ctx), g).start()
		fallthrough
	case gone != nil:
		select {
		case <-answers:
		case <-gone:
			if c.abandon(r) {
				return Decision{}, ctx.Err()
			}
			<-answers
		}
	default:
		<-answers
	}
	decision, err := r.decision, r.err
	*r = request{}
	c.pools.requests.Put(r)
	return decision, err
}

// callLimit is how many calls for one limiter may be in flight at once. Client.mu is held.
func (c *Client) callLimit() int {
	if c.slow {
		return maxCalls
	}
	return maxFastCalls
}

// abandon takes a caller whose context has ended out of its request. It says false where the answer is there already.
func (c *Client) abandon(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.state == answered {
		return false
	}
	r.state = abandoned
	return true
}

// flight makes a flight that sends what waits at a gate.
func (l *Limiter) flight(ctx context.Context, g *gate) *flight {
	f := l.client.pools.flights.Get().(*flight)
	f.ctx, f.limiter, f.gate, f.detail = ctx, l, g, l.client.denials != nil
	return f
}

// fly sends what waits at the gate, again and again until nothing does. Where it runs on the goroutine of a caller
// it sends once and leaves the rest to a goroutine of its own, since the caller has its answer by then.
func (f *flight) fly(caller bool) {
	l, g, c := f.limiter, f.gate, f.limiter.client
	for again := true; again; {
		c.gather(g)
		c.mu.Lock()
		f.board(g)
		if company := len(f.batch) > 1 || g.calls > 1; company != c.company.Load() {
			c.company.Store(company)
		}
		if several := len(c.gates) > pipelined; several != c.several.Load() {
			c.several.Store(several)
		}
		c.mu.Unlock()

		called := len(f.batch) > 0 // or all of its callers have gone
		var err error
		var took time.Duration
		if called {
			err = l.acquire(f.ctx, f)
			took = time.Since(f.sent)
		}

		c.mu.Lock()
		if called {
			c.slow = took >= slowCall
		}
		lost := f.deliver(err)
		granted := f.granted(lost)
		again = len(g.waiting) > 0 && !g.gathering
		if again {
			g.gathering = true
		} else if g.calls--; g.calls == 0 {
			if c.gates[l.keys[configKey]] == g {
				delete(c.gates, l.keys[configKey])
			}
			c.pools.gates.Put(g)
		}
		c.mu.Unlock()
		// The requests are their callers' from here on.
		clear(f.batch)
		if f.answers != nil {
			close(f.answers)
		}
		if again && caller {
			go l.flight(f.ctx, g).start()
			again = false
		}
		l.giveBack(f.ctx, f, granted, lost)
		if called {
			l.remember(f.ctx, f)
		}
	}
	f.ctx, f.limiter, f.gate, f.answers = nil, nil, nil, nil
	c.pools.flights.Put(f)
}

// gather lets the callers that are about to join do so: those that the last reply woke, mostly. Where the last call had
// no company it costs a lone caller nothing.
func (c *Client) gather(g *gate) {
	for size, nobody := 0, 0; nobody < patience && c.company.Load() && c.courtesy.giveWay(); {
		c.mu.Lock()
		now := len(g.waiting)
		c.mu.Unlock()
		if now >= fullBatch {
			return
		}
		if now == size {
			nobody++
		} else {
			size, nobody = now, 0
		}
	}
}

// board takes the requests that wait at a gate along, except those whose callers have gone.
func (f *flight) board(g *gate) {
	f.batch, f.answers = f.batch[:0], g.answers
	for _, r := range g.waiting {
		if r.state == queued {
			r.state = flying
			f.batch = append(f.batch, r)
		}
	}
	clear(g.waiting)
	g.waiting, g.wanted, g.answers, g.gathering = g.waiting[:0], 0, nil, false
}

// giveBack frees what was granted, as a part of a flight's grant, to callers that had gone. Where that fails, or the grant
// is so large that it became several members, the permits come back by themselves after the interval.
//
// It names the grant, rather than releasing the oldest one: the answer may have come so late that the grant has left
// the window, or from a master that has lost its slots since.
func (l *Limiter) giveBack(ctx context.Context, f *flight, granted, permits int64) {
	if permits == 0 || granted > math.MaxUint32 {
		return
	}
	random := f.args[memberArg][:len(f.args[memberArg])-4]
	grant := string(appendUint32([]byte(random), granted))
	rest := ""
	if granted > permits {
		rest = string(appendUint32([]byte(random), granted-permits))
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := l.ask(ctx, giveBackScript, l.client.nowText(), strconv.FormatInt(permits, 10), grant, rest); err == nil {
		l.poke()
	}
}

// flight is one call of the acquire script for several requests.
type flight struct {
	ctx     context.Context
	limiter *Limiter
	gate    *gate
	start   func()        // fly, on a goroutine of its own
	answers chan struct{} // closed once the batch has its answers; nil where nobody listens

	batch   []*request
	ordered bool // behind a request that is not granted, none is
	detail  bool // the answers tell all, whoever asks

	rate     int64         // of the limiter, where the reply told
	interval time.Duration // of the limiter, where the reply told
	reset    time.Duration // until every permit is free again, where the reply told
	denied   int64         // the fewest permits that were denied, 0 for none
	free     int64         // permits left after the call, below 0 where more are taken than the rate
	returns  []returning   // when permits come back, the earliest first: all that ordered or denied requests need, or a page

	sent  time.Time // the moment that the call began
	asked time.Time // the moment that returns count from

	args []string
	text []byte
}

// returning says that permits come back at a moment.
type returning struct {
	after   time.Duration
	permits int64
}

// acquire asks for the permits of a batch and answers its requests.
func (l *Limiter) acquire(ctx context.Context, f *flight) error {
	f.sent = time.Now()
	f.asked = f.sent
	f.prepare(l.client.appendNow)
	for {
		message, err := l.eval(ctx, acquireScript, l.keys[:], f.args)
		if err != nil {
			return err
		}
		if l.client.serverTime {
			// The server read its clock at some moment before this one: none of the returns is earlier than it seems.
			f.asked = time.Now()
		}
		if message.IsInt64() {
			left, err := message.AsInt64()
			if err == nil && left >= 0 {
				f.free = left
				f.grantAll()
			}
			return err
		}
		reply, err := message.ToArray()
		if err != nil {
			return l.unexpected(message)
		}
		cursor, again, err := l.status(reply)
		if err != nil {
			return err
		}
		if !again {
			return l.answer(f, reply)
		}
		f.args = withCursor(f.args, cursor)
	}
}

// prepare makes the arguments of the acquire script, all in one string, since a call should cost as little as it can.
func (f *flight) prepare(appendNow func([]byte) []byte) {
	f.free, f.denied, f.returns = 0, 0, f.returns[:0]
	var total int64
	detail := f.detail
	for _, r := range f.batch {
		total += r.permits
		detail = detail || r.detail
	}
	text := appendNow(f.text[:0])
	nowEnd := len(text)
	text = strconv.AppendInt(text, total, 10)
	totalEnd := len(text)
	text = appendMember(text, total)
	memberEnd := len(text)
	if len(f.batch) > 1 || f.ordered || detail {
		text = appendRuns(text, f.batch)
	}
	runsEnd := len(text)
	switch {
	case f.ordered:
		text = append(text, "ow"...)
	case detail:
		text = append(text, "dw"...)
	}
	f.text = text
	all := string(text)
	f.args = append(f.args[:0], all[:nowEnd], all[nowEnd:totalEnd], all[totalEnd:memberEnd])
	if memberEnd < len(all) {
		f.args = append(f.args, all[memberEnd:runsEnd], all[runsEnd:])
	}
}

// appendMember appends the member of a grant of n permits: a length, as many random bytes, and the low 32 bits
// of n, little-endian.
func appendMember(text []byte, n int64) []byte {
	const random = 16
	text = append(text, random)
	for range random / 8 {
		bits := rand.Uint64()
		for range 8 {
			text = append(text, byte(bits))
			bits >>= 8
		}
	}
	return appendUint32(text, n)
}

func appendUint32(text []byte, n int64) []byte {
	return append(text, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}

// appendRuns appends the permits of each request, with equal neighbours told once: "1*200 3*1".
func appendRuns(text []byte, batch []*request) []byte {
	for i := 0; i < len(batch); {
		run := i + 1
		for run < len(batch) && batch[run].permits == batch[i].permits {
			run++
		}
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendInt(text, batch[i].permits, 10)
		text = append(text, '*')
		text = strconv.AppendInt(text, int64(run-i), 10)
		i = run
	}
	return text
}

// grantAll answers a batch of which every request was granted.
func (f *flight) grantAll() {
	left := f.free
	for i := len(f.batch) - 1; i >= 0; i-- {
		r := f.batch[i]
		r.decision = Decision{Allowed: true, Remaining: max(0, left)}
		left += r.permits
	}
}

// allGranted stands for the letters of a batch of which every request was granted.
const allGranted = "*"

// answer answers a batch from a reply that tells the requests apart.
func (l *Limiter) answer(f *flight, reply []rueidis.RedisMessage) error {
	const head = 6
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
	if err != nil || letters != allGranted && len(letters) != len(f.batch) {
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
		f.returns = append(f.returns, returning{millis(after), permits})
	}
	f.free, f.rate, f.interval, f.reset = free, rate, interval, reset
	if letters == allGranted {
		f.grantAll()
	} else {
		left := free
		for i := len(f.batch) - 1; i >= 0; i-- {
			r := f.batch[i]
			r.decision = Decision{Allowed: letters[i] == 'g', Remaining: max(0, left)}
			switch letters[i] {
			case 'g':
				left += r.permits
			case 'x':
				r.err = fmt.Errorf("%w: %d requested, the rate of %q is %d", ErrPermitsExceedRate, r.permits, l.name, rate)
			default:
				r.decision.RetryAfter = freeAfter(f.returns, r.permits-free)
				if f.denied == 0 || r.permits < f.denied {
					f.denied = r.permits
				}
			}
		}
	}
	for _, r := range f.batch {
		if r.err == nil {
			r.decision.Limit, r.decision.ResetAfter = rate, reset
		} else {
			r.decision = Decision{}
		}
	}
	return nil
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

// deliver makes the answers of a batch final and tells how many permits were granted to callers that had gone.
// Client.mu is held.
func (f *flight) deliver(err error) (lost int64) {
	for _, r := range f.batch {
		if r.state == abandoned {
			if err == nil && r.decision.Allowed {
				lost += r.permits
			}
			continue
		}
		if err != nil {
			r.err = err
		}
		r.state = answered
	}
	return lost
}

// granted counts the permits of the flight's grant where some of them were lost, before the callers are woken.
func (f *flight) granted(lost int64) (permits int64) {
	if lost == 0 {
		return 0
	}
	for _, r := range f.batch {
		if r.decision.Allowed {
			permits += r.permits
		}
	}
	return permits
}

// millis is a number of milliseconds as a duration, the longest there is where it is more.
func millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}
