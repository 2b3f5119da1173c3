package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// Client opens limiters on one Redis. It counts as one more Redisson instance: it has an ID, by which PerClient
// limiters tell clients apart. A program needs one Client for each Redis it talks to, mostly one.
//
// A Client is safe for concurrent use, keeps no memory of a limiter once no call for it is under way (and with [WithLease] none was for
// as long as a lease lasts) and no goroutine
// for longer than a tenth of a second after its last call, and needs no Close; the rueidis client stays its caller's. Calls of
// the zero Client fail with [ErrNoClient].
type Client struct {
	redis    rueidis.Client
	id       string
	mapName  func(string) string
	settings engine.Settings
	engine   *engine.Engine
	observer *Observer
	err      error // what is wrong with the options
}

// Option is a setting of a [Client], for [New].
type Option func(*Client)

// WithClientID sets the ID by which PerClient limiters count this client, so that a process which is started again
// goes on with what it had taken. Two clients that run at once with the same ID share their PerClient limits; do not
// give the ID of a running Redisson instance, which would not keep what the two have taken for as long as it counts.
// By default each Client has a random UUID, as each Redisson instance has.
func WithClientID(id uuid.UUID) Option {
	return func(c *Client) { c.id = id.String() }
}

// WithNameMapper sets what makes a limiter's name the name in Redis, a prefix for instance: Redisson's NameMapper.
// A nil mapper leaves names as they are, which is the default.
func WithNameMapper(mapper func(name string) string) Option {
	return func(c *Client) { c.mapName = mapper }
}

// WithClock sets the clock by which grants are dated and leave the window. The default, which nil stands for too,
// is [time.Now]: the calling host's clock, as Redisson takes it.
func WithClock(now func() time.Time) Option {
	return func(c *Client) { c.settings.Now, c.settings.ServerTime = now, false }
}

// WithServerTime dates grants by the clock of the Redis server, which makes Go hosts immune to the skew between
// their clocks. Java clients of the same limiter still date theirs by their own.
func WithServerTime() Option {
	return func(c *Client) { c.settings.Now, c.settings.ServerTime = nil, true }
}

// New makes a Client on a rueidis client for a single Redis, a Sentinel set-up or a Redis Cluster. It asks nothing
// of Redis. A nil client shows as [ErrNoClient] at the first call.
func New(client rueidis.Client, opts ...Option) *Client {
	c := &Client{redis: client, id: uuid.NewString(), settings: engine.Settings{Redis: client}}
	for _, opt := range opts {
		if opt != nil {
			opt(c)
		}
	}
	c.engine = engine.New(c.settings)
	return c
}

// ID is the client's ID: redisson.getId().
func (c *Client) ID() string { return c.id }

// Limiter opens the limiter of a name: redisson.getRateLimiter(name). It is cheap, asks nothing of Redis, and two
// Limiters of one name are the same limiter. A name that cannot be used shows at the first call: [ErrInvalidName] for
// an empty one, [ErrCrossSlot] for one whose keys do not share a slot, on a cluster.
func (c *Client) Limiter(name string) *Limiter {
	l := &Limiter{client: c}
	l.keys, l.err = c.open(name)
	l.calls.Engine, l.calls.ID, l.calls.Name, l.calls.Protocol = c.engine, l.keys[configKey], name, (*protocol)(l)
	l.calls.Leases = true
	return l
}

// open gives the keys of a limiter's name, or what is wrong with it.
func (c *Client) open(name string) (keys, error) {
	if c.redis == nil {
		return keys{}, fmt.Errorf("%w: give New a rueidis.Client", ErrNoClient)
	}
	if c.err != nil {
		return keys{}, c.err
	}
	mapped := name
	if c.mapName != nil {
		mapped = c.mapName(name)
	}
	if mapped == "" {
		return keys{}, fmt.Errorf("%w: %q is empty or was mapped to nothing", ErrInvalidName, name)
	}
	k := newKeys(mapped, c.id)
	if c.engine.Cluster() {
		if err := checkSlots(k[:]...); err != nil {
			return keys{}, err
		}
	}
	return k, nil
}

// WithDenialCache answers denials from memory: once Redis has said that so many permits cannot be free before some
// moment, TryAcquire and Take for at least as many are denied without asking it until then. Nothing is ever granted
// from memory.
//
// What was remembered is forgotten as soon as this Client changes the limiter in any way, and, where the rueidis client
// caches (the default, with Redis 6 or later), within about a millisecond of being told that somebody else did. With a
// rueidis client that was made with DisableCache, a limiter that others reset, delete, or release permits of, stays
// denied here for as long as Redis had said.
//
// It remembers a name only while it is exhausted.
func WithDenialCache() Option {
	return func(c *Client) { c.settings.Denials = true }
}

// WithLease makes the processes' own memory answer callers that ask often: this Client takes permits for callers to come, as many as
// they asked for in the last d, and hands them out for d, in whole milliseconds from 1 ms to 1 s. Callers that ask seldom are
// asked for one by one, as without it.
//
// It stays strict: what is leased counts as taken from the lease's end on, so that no window of one interval ever holds more than the
// rate. The price is that permits come back up to d later, and that others find fewer free: never less than half of what
// there is, and the last eighth of a rate is never leased. No lease lasts longer than a sixteenth of the interval, or than an
// expiry leaves the limiter.
//
// What is not used goes back when the lease ends, with [Client.Flush], and whenever this Client changes the limiter in any way.
// A change that others make is seen by callers once the lease has ended: where Java lowers the rate, what is used beyond the new one
// is at most what was leased, for no longer than the lease lasts. In package limit the windows lease, see there. Permits that a
// process had leased when it
// died are free again when they leave the window. Nothing is handed out after a lease's end, by the process' clocks, whatever
// stopped the process meanwhile, but for what was checked by then and had not returned: some nanoseconds, mostly.
func WithLease(d time.Duration) Option {
	return func(c *Client) {
		if d < time.Millisecond || d > time.Second || d%time.Millisecond != 0 {
			c.err = fmt.Errorf("%w: WithLease(%v), want whole milliseconds from 1ms to 1s", ErrInvalidOption, d)
		}
		c.settings.Lease = d
	}
}

// Flush gives the permits back that are leased and not used, for a program that is about to end. It does nothing without [WithLease].
// What a call under way brings goes back by itself once it is there. Where Redis fails, the error is one of those that it gave, and
// the permits come back when they leave the window.
func (c *Client) Flush(ctx context.Context) error {
	if c.redis == nil {
		return fmt.Errorf("%w: give New a rueidis.Client", ErrNoClient)
	}
	return c.engine.Flush(ctx)
}

// nowText is the time as scripts take it.
func (c *Client) nowText() string { return string(c.engine.AppendMillis(nil, c.engine.Now())) }

// Limiter is one rate limiter, shared with everybody who opens its name on the same Redis: Redisson's RRateLimiter.
//
// A Limiter is safe for concurrent use. Calls of the zero Limiter fail with [ErrNoClient].
//
// Every call ends as soon as its context does, with the context's error. A call that changes something and had been
// sent by then may still take effect, but permits that arrive for a caller that has gone are given back.
type Limiter struct {
	client *Client
	keys   keys
	err    error // what is wrong with the name or the client
	calls  engine.Limiter
}

// Name is the name that the limiter was opened with: getName().
func (l *Limiter) Name() string { return l.calls.Name }

// check says what is wrong before Redis is asked at all.
func (l *Limiter) check(ctx context.Context) error {
	if l.client == nil {
		return fmt.Errorf("%w: open a Limiter with Client.Limiter", ErrNoClient)
	}
	if l.err != nil {
		return l.err
	}
	return ctx.Err()
}

func (l *Limiter) checkAcquire(ctx context.Context, permits int64) error {
	if permits < 1 {
		return fmt.Errorf("%w: %d permits of %q requested, want at least 1", ErrInvalidPermits, permits, l.calls.Name)
	}
	if permits > maxPermits {
		return fmt.Errorf("%w: %w: %d permits of %q requested, and no rate is above 2^53", ErrInvalidPermits, ErrPermitsExceedRate, permits, l.calls.Name)
	}
	return l.check(ctx)
}

// TrySetRate sets the rate of a limiter that has none and says whether it did: trySetRate. Where the limiter has a
// rate already nothing changes. An invalid rate is refused with [ErrInvalidRate].
func (l *Limiter) TrySetRate(ctx context.Context, rate Rate) (bool, error) {
	if err := rate.validate(); err != nil {
		return false, err
	}
	if err := l.check(ctx); err != nil {
		return false, err
	}
	set, err := l.askInt(ctx, l.keys[:1], trySetRateScript, l.keys[:], rate.fields()...)
	return set == 1, err
}

// SetRateOption is a setting of [Limiter.SetRate] and [Limiter.UpdateRate].
type SetRateOption func(*setRate)

type setRate struct{ keepState bool }

// KeepState keeps the permits that are taken: keepState() of Redisson's rate limiter arguments. Those that lie within
// the new interval count against the new rate; where they are more than it, nothing is granted until enough of them
// have left the window. Without it the limiter starts anew, with all permits free. It has no effect where the type
// of the rate changes.
func KeepState() SetRateOption {
	return func(s *setRate) { s.keepState = true }
}

// SetRate sets the rate, whether the limiter has one or not: setRate. All permits are free afterwards, for PerClient
// those of this client, unless [KeepState] is given. An expiry that Expire set stays; one that came from an old
// KeepAlive goes. Whatever else the limiter's configuration held is replaced, so that SetRate repairs it.
func (l *Limiter) SetRate(ctx context.Context, rate Rate, opts ...SetRateOption) error {
	_, err := l.setRate(ctx, rate, "", opts)
	return err
}

// UpdateRate is [Limiter.SetRate] for a limiter that exists, and says whether it does: updateRate.
func (l *Limiter) UpdateRate(ctx context.Context, rate Rate, opts ...SetRateOption) (bool, error) {
	return l.setRate(ctx, rate, "e", opts)
}

func (l *Limiter) setRate(ctx context.Context, rate Rate, letters string, opts []SetRateOption) (bool, error) {
	if err := rate.validate(); err != nil {
		return false, err
	}
	if err := l.check(ctx); err != nil {
		return false, err
	}
	var set setRate
	for _, opt := range opts {
		if opt != nil {
			opt(&set)
		}
	}
	if set.keepState {
		letters += "k"
	}
	args := append([]string{l.client.nowText()}, rate.fields()...)
	done, err := l.askInt(ctx, l.keys[:1], setRateScript, l.keys[:], append(args, letters)...)
	return done == 1, err
}

// fields gives a rate as the configuration hash holds it.
func (r Rate) fields() []string {
	return []string{
		strconv.FormatInt(r.Permits, 10),
		strconv.FormatInt(r.Interval.Milliseconds(), 10),
		strconv.Itoa(int(r.Type)),
		strconv.FormatInt(r.KeepAlive.Milliseconds(), 10),
	}
}

// Config reads the rate: getConfig(). A limiter without one is [ErrNotInitialized], where Redisson gives a rate of 0.
// A configuration that is no limiter's is a [*StateError].
func (l *Limiter) Config(ctx context.Context) (Rate, error) {
	if err := l.check(ctx); err != nil {
		return Rate{}, err
	}
	return engine.Detached(ctx, func(ctx context.Context) (Rate, error) {
		read := l.client.redis.B().Arbitrary("HMGET").Keys(l.keys[configKey]).Args("rate", "interval", "type", "keepAliveTime").Build()
		fields, err := l.client.redis.Do(ctx, read).ToArray()
		if err != nil {
			return Rate{}, l.explain(ctx, err)
		}
		return l.parseConfig(fields)
	})
}

// parseConfig makes a Rate of the four fields of the configuration hash. What is no number is refused; an interval or
// keep-alive longer than a Duration is cut.
func (l *Limiter) parseConfig(fields []rueidis.RedisMessage) (Rate, error) {
	for i := range 3 {
		if i >= len(fields) || fields[i].IsNil() {
			return Rate{}, fmt.Errorf("%w: %q has no rate, set one with TrySetRate or SetRate", ErrNotInitialized, l.calls.Name)
		}
	}
	var numbers [4]int64
	for i, name := range []string{"rate", "interval", "type", "keepAliveTime"} {
		if i >= len(fields) || fields[i].IsNil() {
			continue // releases before 3.38 do not write keepAliveTime
		}
		text, err := fields[i].ToString()
		if err != nil {
			return Rate{}, l.unexpected(fields[i])
		}
		number, ok := parseCount(text)
		switch name {
		case "rate":
			ok = ok && (number < maxPermits || text == strconv.FormatInt(maxPermits, 10))
		case "type":
			ok = text == "0" || text == "1"
		case "keepAliveTime":
			ok = ok && len(text) < 16 && (text == "0" || text[0] != '0')
		}
		if !ok {
			return Rate{}, &StateError{Key: l.keys[configKey], Field: name, Value: text}
		}
		numbers[i] = number
	}
	return Rate{Type: RateType(numbers[2]), Permits: numbers[0], Interval: millis(numbers[1]), KeepAlive: millis(numbers[3])}, nil
}

// parseCount reads a number of the configuration: decimal digits and nothing else, as the script demands. One above
// the largest int64 counts as that.
func parseCount(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil || errors.Is(err, strconv.ErrRange)
}

// TryAcquire takes permits if they are free now, and says whether they were: tryAcquire(permits). It never waits.
//
// Errors: [ErrInvalidPermits], [ErrNotInitialized], [ErrPermitsExceedRate], [*StateError]. Where Redis fails while
// the call is under way the permits may be taken all the same; they return after the interval. Redis keeps a grant as
// one member for each 4294967295 permits, so a single grant of more than some 2^40 makes the server work for a while.
func (l *Limiter) TryAcquire(ctx context.Context, permits int64) (bool, error) {
	decision, err := l.try(ctx, engine.Ask{Permits: permits})
	return decision.Allowed, err
}

// Take is [Limiter.TryAcquire] with the numbers that a caller shows its own users, in an HTTP header for instance.
// Where very many grants are in the window, RetryAfter may be the moment to ask again rather than the last word.
func (l *Limiter) Take(ctx context.Context, permits int64) (Decision, error) {
	return l.try(ctx, engine.Ask{Permits: permits, Detail: true})
}

func (l *Limiter) try(ctx context.Context, ask engine.Ask) (Decision, error) {
	if err := l.checkAcquire(ctx, ask.Permits); err != nil {
		return Decision{}, err
	}
	result, err := l.calls.Try(ctx, ask)
	return Decision(result.Answer), err
}

// TryAcquireWithin takes permits as soon as they are free, if that is within the timeout, and says whether it was:
// tryAcquire(permits, timeout). It stands in line with Acquire. Where the permits cannot be free in time it says so at
// once rather than at the end of the timeout; where more than 256 grants lie in the window, only as far as the oldest 256
// tell. A timeout of 0 or below is one try, as TryAcquire. Where the timeout passes
// without any answer of Redis, the error is [context.DeadlineExceeded].
func (l *Limiter) TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	if timeout <= 0 {
		return l.TryAcquire(ctx, permits)
	}
	deadline := time.Now().Add(timeout)
	if err := l.checkAcquire(ctx, permits); err != nil {
		return false, err
	}
	return l.calls.Wait(ctx, permits, deadline)
}

// Acquire takes permits as soon as they are free, and waits until then: acquire(permits). Those who wait for one
// limiter on one Client are served in the order in which they came, a large request before smaller ones behind it.
// It ends with ctx; where the deadline of ctx lies before the moment at which the permits could be free, it fails at
// once with an error that is [context.DeadlineExceeded]. Nobody holds permits afterwards who was not granted them.
func (l *Limiter) Acquire(ctx context.Context, permits int64) error {
	if err := l.checkAcquire(ctx, permits); err != nil {
		return err
	}
	_, err := l.calls.Wait(ctx, permits, time.Time{})
	return err
}

// Release gives permits back before they leave the window by themselves: release(permits). The oldest grants shrink
// by as much. Releasing more than is taken frees all; 0 does nothing. Below 0 is [ErrInvalidPermits].
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	if permits < 0 || permits > maxPermits {
		return fmt.Errorf("%w: %d permits of %q to release, want 0 to 2^53", ErrInvalidPermits, permits, l.calls.Name)
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	for permits > 0 {
		reply, err := l.askChange(ctx, releaseScript, l.client.nowText(), strconv.FormatInt(permits, 10))
		if err != nil {
			return err
		}
		if len(reply) != 2 {
			return l.unexpected(reply[0])
		}
		if permits, err = reply[1].AsInt64(); err != nil {
			return l.unexpected(reply[1])
		}
	}
	return nil
}

// AvailablePermits counts the permits that are free now, 0 to the rate: availablePermits(). It only reads.
func (l *Limiter) AvailablePermits(ctx context.Context) (int64, error) {
	if err := l.check(ctx); err != nil {
		return 0, err
	}
	reply, err := l.ask(ctx, availableScript, l.client.nowText())
	if err != nil {
		return 0, err
	}
	if len(reply) != 2 {
		return 0, l.unexpected(reply[0])
	}
	free, err := reply[1].AsInt64()
	if err != nil {
		return 0, l.unexpected(reply[1])
	}
	return free, nil
}
