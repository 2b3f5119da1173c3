package rratelimiter

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Client opens limiters on one Redis. It counts as one more Redisson instance: it has an ID, by
// which PerClient limiters distinguish clients. A program needs one Client per Redis.
//
// A Client is safe for concurrent use and needs no Close; its user closes the rueidis client. It
// keeps the state of a limiter while calls wait or are in flight, while permits are prefetched, and
// while a denial is cached. Besides, it keeps the last known rate of at most 65,536 limiters. No
// goroutine outlives the last command to Redis by more than a tenth of a second. A command may
// outlive its caller, and prefetches are released when they end. Calls of the zero Client fail with
// [ErrNoClient].
type Client struct {
	sealed
	redis      rueidis.Client
	id         string
	mapName    func(string) string
	settings   engine.Settings
	engine     *engine.Engine
	prefetchID uint64 // in the members of grants with prefetched permits: see newPrefetchID
	// Of waiters: see WithWaitJitter.
	waitJitter time.Duration
	hints      hints
	recounts   sync.Map // a channel of each count of drift that runs, closed at its end
	err        error    // of an invalid option
}

// Option is a setting of a [Client], for [New].
type Option func(*Client)

// WithClientID sets the ID under which PerClient limiters count this Client. A process that
// restarts with the same ID keeps its grants. Two Clients with one ID share their PerClient limits.
// Do not use the ID of a running Redisson instance: it would let the shared state expire too early.
// By default each Client has a random UUID, like each Redisson instance.
func WithClientID(id uuid.UUID) Option {
	return func(c *Client) { c.id = id.String() }
}

// WithNameMapper sets the function that maps a limiter's name to its name in Redis, to add a prefix
// for instance. It is Redisson's NameMapper. By default, or with a nil mapper, names stay as they
// are.
func WithNameMapper(mapper func(name string) string) Option {
	return func(c *Client) { c.mapName = mapper }
}

// WithClock sets the clock that dates grants and decides when they expire. The default, also for
// nil, is [time.Now]: the host's clock, as in Redisson.
func WithClock(now func() time.Time) Option {
	return func(c *Client) { c.settings.Now, c.settings.ServerTime = now, false }
}

// WithServerTime dates grants by the clock of the Redis server, so that the skew between Go hosts
// does not matter. Java clients of the same limiter still use their own clocks.
func WithServerTime() Option {
	return func(c *Client) { c.settings.Now, c.settings.ServerTime = nil, true }
}

// The timers of Redisson's waiters tick every 100 ms or more often, so these ask up to 100 ms late, and some
// milliseconds more.
const defaultWaitJitter = 150 * time.Millisecond

// WithWaitJitter sets by how much callers that wait ask late for permits, at most. Only a program that
// shares limiters with waiters of Redisson needs it, and the default of 150 ms suits most.
//
// Permits return in a burst, and Redisson's waiters ask up to 100 ms late: Go would take all. So all
// Clients are late in some intervals, by at most d and two thirds of an interval. If their clock is ahead of that
// of Redis, they are later by that time. They are late in at most two of five intervals, and in few if no other
// program takes permits then. Waiters of Clients that together got more than half of the permits are also late
// after another program took what they wait for. While no other caller takes permits, this costs at most a
// fortieth of the rate, and a little more at first.
//
// With 0, callers ask on time: for a limiter that only Go programs use. A caller also asks on time if its
// deadline would pass otherwise, unless its Clients got more than half of the permits beside another program.
// Callers that do not wait, as those of TryAcquire, can take the permits before callers that wait. A d below 0 is
// [ErrInvalidOption].
//
// For a Limiter in a limit.Join, the time is random, and below 20 ms and a fortieth of the interval. For a
// TokenBucket, LeakyBucket or Smooth of package limit, it is random and at most 5 ms. It is also at most a fifth of
// the time in which the permits of all waiters come free, and none is lost. The other policies ask on time.
func WithWaitJitter(d time.Duration) Option {
	return func(c *Client) {
		if d < 0 {
			c.err = fmt.Errorf("%w: WithWaitJitter(%v), want 0 or more", ErrInvalidOption, d)
		}
		c.waitJitter = d
	}
}

// New returns a Client on a rueidis client for a single Redis, Sentinel or Redis Cluster. It sends
// nothing. With a nil client, calls fail with [ErrNoClient].
func New(client rueidis.Client, opts ...Option) *Client {
	c := &Client{redis: client, id: uuid.NewString(), prefetchID: newPrefetchID(),
		settings: engine.Settings{Redis: client}, waitJitter: defaultWaitJitter}
	for _, opt := range opts {
		if opt != nil {
			opt(c)
		}
	}
	c.engine = engine.New(c.settings)
	if client != nil {
		c.sealed = inside.New(c.parts())
	}
	return c
}

// Connect is rueidis.NewClient for programs that outlive outages. It returns a client also while Redis
// cannot be reached, which tries to connect every second. Its calls fail until it has, so that the failure
// mode of middleware or of package fallback decides. Connect takes at most the Dialer.Timeout of the
// option, 5 s by default, for each address. It returns an error if the option is invalid, or if Redis
// rejects the program, for instance its password.
//
// The client of a single server dials again if a reply says that the server has become a replica. Behind the
// address of a service or a DNS name, another server is the master then. The client dials once for
// all callers, and at most once a second. Until then, calls fail with the reply. Calls in flight have
// another ten seconds to end on the old connections.
func Connect(option rueidis.ClientOption) (rueidis.Client, error) {
	connect := func() (rueidis.Client, error) { return rueidis.NewClient(option) }
	client, err := connect()
	switch {
	case err == nil:
		return redisx.Redial(client, connect), nil
	case !redisx.Away(err):
		if client != nil {
			client.Close()
		}
		return nil, err
	case client != nil: // of a single server, which dials in each call
		return redisx.Redial(client, connect), nil
	}
	return redisx.Late(err, connect), nil
}

// ID returns the client's ID: redisson.getId().
func (c *Client) ID() string { return c.id }

// Limiter opens the limiter with a name: redisson.getRateLimiter(name). It sends nothing and is
// cheap. Two Limiters with one name are the same limiter. With an invalid name, calls fail: with
// [ErrInvalidName] if it is empty, and on a cluster with [ErrCrossSlot] if its keys do not share a
// slot. With an invalid [InitialRate] they fail with [ErrInvalidRate].
func (c *Client) Limiter(name string, opts ...LimiterOption) *Limiter {
	l := &Limiter{protocol: protocol{client: c, name: name}}
	l.sealed = inside.New((*handle)(l))
	l.protocol.keys, l.err = c.open(name)
	l.crossSlot = checkSlots(l.protocol.keys[:]...)
	for _, opt := range opts {
		if opt != nil {
			opt(l)
		}
	}
	id := "redisson " + l.protocol.keys[configKey]
	if l.protocol.initial != nil { // its calls are not those of a limiter without, which would fail
		id = "initial " + strings.Join(l.protocol.initial[0].Args, ",") + " " + l.protocol.keys[configKey]
	}
	l.calls = engine.Limiter{
		Engine: c.engine, ID: id, Name: name, Policy: "redisson", DependsOn: l.protocol.keys[:1], Protocol: &l.protocol,
		CanPrefetch: true, Tick: time.Millisecond,
	}
	return l
}

// open returns the keys of a limiter, or an error if its name is invalid.
func (c *Client) open(name string) (limiterKeys, error) {
	mapped, err := c.mapped(name)
	if err != nil {
		return limiterKeys{}, err
	}
	return newKeys(mapped, c.id), nil
}

// mapped returns a limiter's name in Redis, or an error if the name is invalid.
func (c *Client) mapped(name string) (string, error) {
	if c.redis == nil {
		return "", fmt.Errorf("%w: give New a rueidis.Client", ErrNoClient)
	}
	if c.err != nil {
		return "", c.err
	}
	mapped := name
	if c.mapName != nil {
		mapped = c.mapName(name)
	}
	if name == "" || mapped == "" {
		return "", fmt.Errorf("%w: %q is empty or was mapped to nothing", ErrInvalidName, name)
	}
	return mapped, nil
}

// WithDenialCache answers denials from memory. Once Redis has denied permits, TryAcquire and Take
// deny as many or more without a call until these permits return, and for at most maxAge. So do
// TryAcquireWithin and Acquire if the permits return after their deadline. No permit is ever
// granted from memory. A denial from memory does not renew a KeepAlive, so that one is at most a
// sixteenth of it old.
//
// Any change of the limiter by this Client removes the denial at once, and so does a grant. A
// change by another client is seen when the denial is older than maxAge: choose the longest time
// for which a caller may be denied permits that others released. The times are those of the
// Client's clock ([WithClock]); with [WithServerTime] those of the host's clock since the call to
// Redis. A denial ends early if that clock is set back, or if the host's clock shows that maxAge
// has passed.
//
// A denial from memory needs no call, no goroutine and no timer. A Client stores denials of at most
// 65,536 limiters, in a table of half a megabyte. In a full one, the denial of a limiter replaces an older one of
// another. A maxAge of 0 or below is [ErrInvalidOption].
func WithDenialCache(maxAge time.Duration) Option {
	return func(c *Client) {
		if maxAge <= 0 {
			c.err = fmt.Errorf("%w: WithDenialCache(%v), want more than 0", ErrInvalidOption, maxAge)
		}
		c.settings.Denials = maxAge
	}
}

// WithPrefetch lets the Client prefetch permits of busy limiters and grant them from memory for up to
// d, in whole milliseconds from 1 ms to 1 s. It prefetches as many permits as were requested in the
// last d. Limiters that are rarely used ask Redis every time.
//
// A prefetch is strict: Redis counts its permits as taken at the prefetch's end, so that no window of one
// interval holds more than the rate. The price: permits return up to d later, and other clients
// find fewer permits free. A prefetch takes at most half of the free permits, and never the last
// eighth of the rate. It lasts at most a sixteenth of the interval. A limiter that expires sooner
// than an interval after the prefetch has none.
//
// Unused permits are refunded when the prefetch ends, by [Client.Flush], and when this Client changes
// the limiter in any way. If another process renames the limiter meanwhile, they cannot be
// refunded: they return when they expire. The same holds for the prefetched permits of a process that
// ended without [Client.Flush].
//
// The Client sees a change by another client when the prefetch ends, also a Release or a Reset of another
// process. If Java lowers the rate, at most the prefetched permits are used beyond the new rate.
//
// No permit is granted after a prefetch's end by the process's clocks. Only a permit whose check has just passed
// can be used some nanoseconds later. If the clock that dates grants jumps forward, prefetched permits can be used
// on top of the rate until the prefetch ends.
//
// In package limit, FixedWindow and Calendar prefetch, and a limiter of several of these. A Decision
// about prefetched permits counts what other clients had taken at the last reply of Redis.
func WithPrefetch(d time.Duration) Option {
	return func(c *Client) {
		if d < time.Millisecond || d > time.Second || d%time.Millisecond != 0 {
			c.err = fmt.Errorf("%w: WithPrefetch(%v), want whole milliseconds from 1ms to 1s", ErrInvalidOption, d)
		}
		c.settings.Prefetch = d
	}
}

// Flush releases the unused permits of all prefetches, and of prefetches whose calls are in flight. It waits
// until counts of drift have ended. Call it when the program ends. If Redis fails or ctx ends first,
// Flush returns the error, and the permits return when they expire.
func (c *Client) Flush(ctx context.Context) error {
	if c.redis == nil {
		return fmt.Errorf("%w: give New a rueidis.Client", ErrNoClient)
	}
	if err := c.engine.Flush(ctx); err != nil {
		return err
	}
	for done := range c.recounts.Range {
		select {
		case <-done.(chan struct{}): //nolint:errcheck,forcetypeassert // nothing else is there
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// nowText returns the time as an argument of a script.
func (c *Client) nowText() string { return c.timeText(c.engine.Now()) }
