package rratelimiter

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	mark     uint64 // of the grants with leased permits
	hints    hints
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
	c := &Client{redis: client, id: uuid.NewString(), mark: rand.Uint64(), settings: engine.Settings{Redis: client}}
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
	l.calls.Engine, l.calls.ID, l.calls.Name, l.calls.Protocol = c.engine, "redisson "+l.keys[configKey], name, (*protocol)(l)
	l.calls.Subjects = l.keys[:1]
	l.calls.Leases, l.calls.Policy = true, "redisson"
	return l
}

// open gives the keys of a limiter's name, or what is wrong with it.
func (c *Client) open(name string) (keys, error) {
	mapped, err := c.mapped(name)
	if err != nil {
		return keys{}, err
	}
	k := newKeys(mapped, c.id)
	if c.engine.Cluster() {
		if err := checkSlots(k[:]...); err != nil {
			return keys{}, err
		}
	}
	return k, nil
}

// mapped gives a limiter's name in Redis, or what is wrong with it.
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
	if mapped == "" {
		return "", fmt.Errorf("%w: %q is empty or was mapped to nothing", ErrInvalidName, name)
	}
	return mapped, nil
}

// WithDenialCache answers denials from memory. Once Redis has denied permits, TryAcquire and Take deny as many or more
// without a call until these permits return, and for at most maxAge. No permit is ever granted from memory.
//
// A denial is forgotten at once when this Client changes the limiter in any way. A change by another client is seen once
// the denial is older than maxAge: choose the longest time for which a caller may be denied permits that others released.
// The times are those of the Client's clock ([WithClock]); with [WithServerTime] those of the host's clock since the call
// of Redis. A denial ends early when that clock is set back, or when the host's clock shows that maxAge has passed.
//
// A denial from memory needs no call, no goroutine and no timer. A Client holds denials of at most 65,536 limiters; those
// of others are not remembered meanwhile. A maxAge of 0 or below is [ErrInvalidOption].
func WithDenialCache(maxAge time.Duration) Option {
	return func(c *Client) {
		if maxAge <= 0 {
			c.err = fmt.Errorf("%w: WithDenialCache(%v), want more than 0", ErrInvalidOption, maxAge)
		}
		c.settings.Denials = maxAge
	}
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
// A lease's unused permits cannot be returned if another process renames the limiter meanwhile: they return when they expire.
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

// Flush gives the permits back that are leased and not used, for a program that is about to end, and waits for what calls under way
// bring. It does nothing without [WithLease]. Where Redis fails, or ctx ends first, the error says so, and the permits come back when
// they leave the window.
func (c *Client) Flush(ctx context.Context) error {
	if c.redis == nil {
		return fmt.Errorf("%w: give New a rueidis.Client", ErrNoClient)
	}
	return c.engine.Flush(ctx)
}

// nowText is the time as scripts take it.
func (c *Client) nowText() string { return string(c.engine.AppendMillis(nil, c.engine.Now())) }
