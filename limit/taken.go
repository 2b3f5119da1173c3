package limit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Taken holds what a call has taken from limiters, until the call settles for its final cost. Take an
// estimate before a request to a model, for instance, and settle for the tokens of its answer. Use one
// Taken for each call. The zero Taken holds nothing.
//
// What is never settled stays taken. Places of an [InFlight] with Renew are renewed until then, so settle in any
// case. A Taken is safe for concurrent use. Without Redis its calls fail, unless they take from a limiter of package
// fallback.
type Taken struct {
	mu    sync.Mutex
	takes []*take

	lossMu sync.Mutex
	loss   *loss // of what is held now; nil before it is needed
}

// loss is closed when a place is lost.
type loss struct {
	once sync.Once
	ch   chan struct{}
}

func (l *loss) report(error) { l.once.Do(func() { close(l.ch) }) }

// take is what one Take or Acquire has taken.
type take struct {
	limiter *Limiter
	receipt receipt.Receipt
	id      string // of the settlement, however often it is sent

	actual int64
	begun  time.Time // the first Settle; zero before
}

// Takeable is a [Joinable] or a Limiter of package fallback. A [Taken] takes from no other type.
type Takeable interface {
	Name() string
	seal
}

// Take takes the same number of permits of each limiter with one call to Redis, or of none if one has
// not enough, as [Join] does. The Decision is that of [Limiter.Take]. If it is not allowed, or with an
// error, t holds what it held before, and TakeEach says which limiter denied.
//
// Several calls can take different numbers, one request and 800 tokens for instance. But a caller that waits for the
// one should not hold the other meanwhile. A permit would count before its request is sent, and a place of an
// [InFlight] would serve no call. So Acquire the one and Take the other. If that is denied, settle the first for 0 and
// begin with the other.
//
// A limiter of package fallback stands alone, and may wrap a Join. While Redis is away, its mode decides.
//
// Errors are those of [Join] and [Limiter.Take], and of package fallback.
func (t *Taken) Take(ctx context.Context, permits int64, limiters ...Takeable) (decision rratelimiter.Decision,
	err error) {
	result, err := t.add(ctx, permits, 0, limiters)
	return rratelimiter.Decision(result.Decision), err
}

// TakeEach is [Taken.Take] with a Decision for each policy of the limiters, in their order, as
// [Limiter.TakeEach]. So a queue of jobs knows whether a job waits for a place or for a minute. A limiter of package
// fallback has one Decision while its share or its mode decides.
func (t *Taken) TakeEach(ctx context.Context, permits int64, limiters ...Takeable) ([]rratelimiter.Decision, error) {
	result, err := t.add(ctx, permits, 0, limiters)
	if result.Parts == nil && err == nil {
		result.Parts = []engine.Decision{result.Decision}
	}
	return decisions(result.Parts), err
}

// TakeWithin is [Taken.Take], but waits as [Limiter.TakeWithin] until the permits are free, if that is within the
// timeout. A timeout of 0 or below is one Take.
func (t *Taken) TakeWithin(ctx context.Context, permits int64, timeout time.Duration, limiters ...Takeable) (
	rratelimiter.Decision, error) {
	result, err := t.add(ctx, permits, max(0, timeout), limiters)
	if err != nil {
		return rratelimiter.Decision{}, err
	}
	return rratelimiter.Decision(result.Decision), nil
}

// Acquire is [Taken.Take], but waits until the permits are free, as [Limiter.Acquire].
func (t *Taken) Acquire(ctx context.Context, permits int64, limiters ...Takeable) error {
	_, err := t.add(ctx, permits, inside.Forever, limiters)
	return err
}

// openTakeable returns the limiter that Redis decides by. With package fallback it is not nil, and decides
// before.
func openTakeable(limiters []Takeable) (*Limiter, inside.Fallback) {
	joined := make([]Joinable, len(limiters))
	for i, one := range limiters {
		l, ok := inside.Of[inside.Fallback](one)
		if !ok {
			joined[i], _ = one.(Joinable)
			continue
		}
		if len(limiters) > 1 {
			return failed("", fmt.Errorf("%w: a %T among %d limiters of a Taken: give one *fallback.Limiter alone, or others",
				rratelimiter.ErrInvalidOption, one, len(limiters))), nil
		}
		wrapped, _ := l.Wrapped().(Joinable)
		return Join(wrapped), l
	}
	return Join(joined...), nil
}

// takeReceipt takes permits. It waits for them at most so long, or inside.Forever.
func (l *Limiter) takeReceipt(ctx context.Context, permits int64, wait time.Duration) (result engine.Result,
	r receipt.Receipt, err error) {
	ask := engine.Ask{Permits: permits, Detail: true, Each: wait == 0, Receipt: true}
	switch wait {
	case 0:
		err = (*handle)(l).Try(ctx, ask, &result)
	case inside.Forever:
		_, err = (*handle)(l).Wait(ctx, ask, time.Time{}, &result)
	default:
		_, err = (*handle)(l).Wait(ctx, ask, time.Now().Add(wait), &result)
	}
	return result, receipt.Receipt{Permits: permits, Refund: result.Refund, Hold: result.Hold}, err
}

// errUnsettled is the error of a Taken whose settlement is not known to be over.
var errUnsettled = errors.New("limit: Settle of this Taken has failed: call it again, or use another Taken")

func (t *Taken) add(ctx context.Context, permits int64, wait time.Duration, limiters []Takeable) (
	result engine.Result, err error) {
	redis, decides := openTakeable(limiters)
	t.mu.Lock()
	unsettled := slices.ContainsFunc(t.takes, (*take).isBegun)
	t.mu.Unlock()
	if unsettled {
		return result, errUnsettled
	}
	var r receipt.Receipt
	if decides != nil && redis.err == nil {
		result.Decision, r, err = decides.Take(ctx, permits, wait)
	} else {
		result, r, err = redis.takeReceipt(ctx, permits, wait)
	}
	if err != nil || !result.Allowed {
		return result, err
	}
	t.mu.Lock()
	t.takes = append(t.takes, &take{limiter: redis, receipt: r, id: rand.Text()})
	t.mu.Unlock()
	r.Hold.Start(t.currentLoss().report) // its hook may panic, or use t
	return result, nil
}

// Lost returns a channel that is closed when the lease of a place of an [InFlight] has ended that t holds. The
// place counts no longer, and another caller may have it: end the call, or take part no more. Settle reports it too,
// with an error that is [ErrLost]. A place without Renew is only lost during Settle.
//
// The channel is that of what t holds now. After Settle, Lost returns another one.
func (t *Taken) Lost() <-chan struct{} { return t.currentLoss().ch }

func (t *Taken) currentLoss() *loss {
	t.lossMu.Lock()
	defer t.lossMu.Unlock()
	if t.loss == nil {
		t.loss = &loss{ch: make(chan struct{})}
	}
	return t.loss
}

func (t *take) isBegun() bool { return !t.begun.IsZero() }

// settleFor is how long one Settle tries. settleAgain is how long after the first one another may
// follow: then Redis may forget that the settlement has run.
const (
	settleFor   = 5 * time.Second
	settleAgain = redisx.OnceFor - 2*settleFor
)

// Settle sets what the call has used, a number of permits for each Take and Acquire that was granted,
// in their order. Those without a number have used nothing. Less than was taken is refunded, and more
// is charged as by [Limiter.Charge]. Then t holds nothing, and another Settle does nothing. So
//
//	defer taken.Settle(ctx)
//
// gives everything back if the call fails before its own Settle.
//
// Of an [InFlight], Settle returns all permits of this call, whatever the number is. Of other policies
// it returns those that still count: after their window, none. Of a [SlidingLog] it also returns none
// if more than 256 entries have followed. Settle goes on if ctx ends or has ended. It lasts five seconds
// at most, and tries again while Redis cannot be reached. A lost reply does no harm: Redis remembers for
// half a minute which settlements have run.
//
// After an error, t holds what could not be settled: each Take that failed is part of the error. Call
// Settle again within 20 seconds, from a goroutine for instance. It uses the numbers of the first
// call, whatever it is given, and does not settle anything twice. What a Take has taken that was under
// way during the first Settle is released. Calls of one Taken wait while a Settle is under way, so a hook of an
// [rratelimiter.Observer] that runs in Settle must not use the same Taken. If such a hook panics, so does Settle.
//
// If a place is not returned when Settle ends, its error says so. No other Settle is needed: the Client repeats the
// return until Redis has answered, or the lease has ended.
//
// A number below 0, or more than 2^53 above what was taken, is [rratelimiter.ErrInvalidPermits]. So are
// more numbers than calls that were granted. Both settle nothing.
//
// A *[rratelimiter.Limiter] cannot owe permits. If more was used than was taken from one, it keeps what was
// taken, the others are charged, and the error is [ErrNotChargeable]. No other Settle is needed then.
func (t *Taken) Settle(ctx context.Context, actual ...int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.begin(actual); err != nil {
		return err
	}
	// While the slot of the keys moves, the settlement is repeated: its own key is missing until then.
	ctx, cancel := context.WithTimeout(redisx.RetryUntilEnd(context.WithoutCancel(ctx)), settleFor)
	defer cancel()
	errs, panicked := settleAll(ctx, t.takes)
	if panicked != nil {
		defer panic(panicked)
	}
	var left []*take
	for i, one := range t.takes {
		if errs[i] != nil {
			if !errors.Is(errs[i], ErrNotChargeable) && !errors.Is(errs[i], errTooOld) {
				left = append(left, one)
			}
			errs[i] = fmt.Errorf("limit: limiter %q: %d permits were taken and cannot be settled for %d: %w",
				one.limiter.Name(), one.receipt.Permits, one.actual, errs[i])
		}
		if err := one.receipt.Hold.Wait(ctx); err != nil {
			errs[i] = errors.Join(errs[i], fmt.Errorf("limit: %w", err))
		}
	}
	if t.takes = left; left == nil {
		t.lossMu.Lock()
		defer t.lossMu.Unlock()
		t.loss = nil
	}
	return errors.Join(errs...)
}

// settleAll settles all takes at once. The panic of a hook is for the caller of Settle: the take of that hook is not
// known to be settled.
func settleAll(ctx context.Context, takes []*take) (errs []error, panicked any) {
	errs = make([]error, len(takes))
	panics := make([]any, len(takes))
	var all sync.WaitGroup
	for i, one := range takes {
		one.receipt.Hold.Return()
		all.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = redisx.ErrNoReply // unless the call returns
			errs[i] = one.settle(ctx)
		})
	}
	all.Wait()
	for _, p := range panics {
		if p != nil {
			panicked = p
		}
	}
	return errs, panicked
}

// begin sets the numbers of a settlement, unless an earlier call did.
func (t *Taken) begin(actual []int64) error {
	if slices.ContainsFunc(t.takes, (*take).isBegun) {
		for _, one := range t.takes {
			if !one.isBegun() { // it was under way during the first Settle
				one.begun = time.Now()
			}
		}
		return nil
	}
	if len(t.takes) == 0 {
		return nil
	}
	if len(actual) > len(t.takes) {
		return fmt.Errorf("%w: %d numbers to settle what %d calls have taken", rratelimiter.ErrInvalidPermits, len(actual),
			len(t.takes))
	}
	for i, n := range actual {
		if n < 0 || n-t.takes[i].receipt.Permits > maxPermits {
			return fmt.Errorf("%w: %d permits of %q to settle, want 0 to 2^53 more than were taken",
				rratelimiter.ErrInvalidPermits, n, t.takes[i].limiter.Name())
		}
	}
	for i, one := range t.takes {
		one.begun = time.Now()
		if i < len(actual) {
			one.actual = actual[i]
		}
	}
	return nil
}

var errTooOld = errors.New("the first Settle was too long ago for another")

// settle refunds or charges the difference, once. It tries until it has a reply, or ctx ends.
func (t *take) settle(ctx context.Context) error {
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		// The monotonic clock may stand still while the machine sleeps.
		if max(time.Since(t.begun), time.Now().Round(0).Sub(t.begun)) > settleAgain {
			return errTooOld
		}
		err := t.attempt(ctx)
		var redisErr *rueidis.RedisError
		refused := errors.As(err, &redisErr) && !redisx.ReplyLost(err)
		var state *rratelimiter.StateError
		if err == nil || refused || errors.As(err, &state) || errors.Is(err, rueidis.ErrClosing) ||
			errors.Is(err, ErrNotChargeable) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

func (t *take) attempt(ctx context.Context) error {
	return t.receipt.Settle(ctx, t.actual, t.id, func(ctx context.Context, more int64) error {
		return t.limiter.chargeMore(ctx, more, t.id)
	})
}
