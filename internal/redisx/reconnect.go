package redisx

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Away reports whether an error of connecting may pass: Redis cannot be reached, or cannot serve. A
// rejection by Redis, or an invalid option, does not pass.
func Away(err error) bool {
	_, isReply := rueidis.IsRedisErr(err)
	switch text := err.Error(); {
	case isReply, errors.Is(err, rueidis.ErrNoCache): // which begins with a reply
		return isUnable(text)
	case text == "the redis role is not master": // of rueidis: during a failover, Sentinel may name a replica
		return true
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF)
}

// redialClient is a client whose calls fail until it has connected. It connects again if its server becomes a
// replica.
type redialClient struct {
	connect func() (rueidis.Client, error)
	client  atomic.Pointer[rueidis.Client] // one that cannot dial, then one that connect returned
	known   atomic.Pointer[rueidis.Client] // the one that connect returned
	none    rueidis.Client                 // the one that cannot dial, of Late
	failure atomic.Pointer[error]          // of the last attempt, of Late
	closed  context.Context                //nolint:containedctx // ended by Close
	end     context.CancelFunc

	mu        sync.Mutex
	open      map[rueidis.Client]bool // those that Close closes
	redialing bool
	redialed  time.Time
}

const (
	reconnectPause = time.Second // between two attempts to connect
	// The mode is known so long before commands are built for it. A call whose keys were checked for a single
	// Redis may have keys of several slots, and the builder of a cluster panics on them.
	lateSwitch = 50 * time.Millisecond
	// A client that was replaced is closed so long after it. Close fails calls in flight after a second.
	replacedFor = 10 * time.Second
)

func newRedialClient(connect func() (rueidis.Client, error)) *redialClient {
	r := &redialClient{connect: connect, open: make(map[rueidis.Client]bool)}
	r.closed, r.end = context.WithCancel(context.Background())
	return r
}

// Late returns a client whose calls fail until connect returns a client, which is called every second.
// They fail with its last error, at first with failure. Then it is a client of Redial. Close ends the attempts.
func Late(failure error, connect func() (rueidis.Client, error)) rueidis.Client {
	r := newRedialClient(connect)
	r.failure.Store(&failure)
	// NewClient returns a client of a single server also if it cannot dial.
	r.none, _ = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"redis"}, ForceSingleClient: true, DisableRetry: true, DisableCache: true,
		PipelineMultiplex: -1,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, *r.failure.Load()
		},
	})
	r.client.Store(&r.none)
	go r.connectFirst()
	return r
}

func (r *redialClient) connectFirst() {
	for {
		select {
		case <-r.closed.Done():
			return
		case <-time.After(reconnectPause):
		}
		client, err := r.connect()
		if err == nil {
			r.known.Store(&client)
			time.Sleep(lateSwitch)
			if !r.use(client) {
				client.Close()
			}
			return
		}
		r.failure.Store(&err)
	}
}

// use makes a client the one for commands. It returns false after Close.
func (r *redialClient) use(client rueidis.Client) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed.Err() != nil {
		return false
	}
	r.open[client] = true
	r.known.Store(&client)
	r.client.Store(&client)
	return true
}

// Redial returns a client that replaces itself by what connect returns, if its server has become a replica.
// Behind one address, another server may be the master, and old connections stay open. A client of a cluster
// or of Sentinel is returned as it is, since rueidis finds the master.
func Redial(client rueidis.Client, connect func() (rueidis.Client, error)) rueidis.Client {
	if client.Mode() != rueidis.ClientModeStandalone {
		return client
	}
	r := newRedialClient(connect)
	r.use(client)
	return r
}

// check begins a redial if an error is the reply of a replica, one for all callers and at most one a second.
func (r *redialClient) check(client rueidis.Client, err error) {
	if err == nil || !isFromReplica(err) || client.Mode() != rueidis.ClientModeStandalone {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if client != r.now() || r.redialing || time.Since(r.redialed) < reconnectPause || r.closed.Err() != nil {
		return
	}
	r.redialing = true
	go r.redial(client)
}

// redial replaces a client, unless the server that it reaches is a replica as well. Calls in flight end on
// the client that was replaced.
func (r *redialClient) redial(before rueidis.Client) {
	client, err := r.connect()
	switch {
	case err == nil && client.Mode() == rueidis.ClientModeStandalone && !saysReplica(r.closed, client) && r.use(client):
		time.AfterFunc(replacedFor, func() { r.closeReplaced(before) })
	case client != nil:
		client.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.redialed, r.redialing = time.Now(), false
}

func (r *redialClient) closeReplaced(client rueidis.Client) {
	r.mu.Lock()
	open := r.open[client] // false after Close
	delete(r.open, client)
	r.mu.Unlock()
	if open {
		client.Close()
	}
}

// saysReplica asks a server for its role. HELLO needs no right but those that a connection needs. A server
// before Redis 6.2 does not say it.
func saysReplica(ctx context.Context, client rueidis.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, reconnectPause)
	defer cancel()
	about, err := client.Do(ctx, client.B().Arbitrary("HELLO").Build()).AsMap()
	role := about["role"]
	name, _ := role.ToString()
	return err == nil && name != "" && name != "master"
}

func (r *redialClient) now() rueidis.Client { return *r.client.Load() }

// ready returns the client for commands. If they were built before the client of a cluster was there, it
// is the one that cannot dial: they have no slot, and that client would panic.
func (r *redialClient) ready(commands ...rueidis.Completed) rueidis.Client {
	client := r.now()
	if client == r.none || client.Mode() != rueidis.ClientModeCluster {
		return client
	}
	const noSlot = 1 << 15
	if slices.ContainsFunc(commands, func(c rueidis.Completed) bool { return c.Slot()&noSlot != 0 }) {
		return r.none
	}
	return client
}

// The methods of rueidis.Client.

func (r *redialClient) B() rueidis.Builder { return r.now().B() }

func (r *redialClient) Mode() rueidis.ClientMode {
	if client := r.known.Load(); client != nil {
		return (*client).Mode()
	}
	return r.none.Mode()
}

func (r *redialClient) Nodes() map[string]rueidis.Client {
	if client := r.now(); client != r.none {
		return client.Nodes()
	}
	return nil
}

func (r *redialClient) Close() {
	r.end()
	r.mu.Lock()
	open := slices.Collect(maps.Keys(r.open))
	clear(r.open)
	r.mu.Unlock()
	for _, client := range open {
		client.Close()
	}
}

func (r *redialClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	client := r.ready(command)
	result := client.Do(ctx, command)
	r.check(client, result.Error())
	return result
}

func (r *redialClient) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	client := r.ready(commands...)
	results := client.DoMulti(ctx, commands...)
	for _, result := range results {
		r.check(client, result.Error())
	}
	return results
}

func (r *redialClient) DoCache(ctx context.Context, command rueidis.Cacheable, ttl time.Duration) rueidis.RedisResult {
	return r.ready(rueidis.Completed(command)).DoCache(ctx, command, ttl)
}

func (r *redialClient) DoMultiCache(ctx context.Context, commands ...rueidis.CacheableTTL) []rueidis.RedisResult {
	plain := make([]rueidis.Completed, len(commands))
	for i, c := range commands {
		plain[i] = rueidis.Completed(c.Cmd)
	}
	return r.ready(plain...).DoMultiCache(ctx, commands...)
}

func (r *redialClient) DoStream(ctx context.Context, command rueidis.Completed) rueidis.RedisResultStream {
	return r.ready(command).DoStream(ctx, command)
}

func (r *redialClient) DoMultiStream(ctx context.Context,
	commands ...rueidis.Completed) rueidis.MultiRedisResultStream {
	return r.ready(commands...).DoMultiStream(ctx, commands...)
}

// Receive goes on when the client that it began on is replaced and closed.
func (r *redialClient) Receive(ctx context.Context, subscribe rueidis.Completed,
	each func(rueidis.PubSubMessage)) error {
	for {
		client := r.ready(subscribe)
		err := client.Receive(ctx, subscribe, each)
		if !errors.Is(err, rueidis.ErrClosing) || client == r.now() || r.closed.Err() != nil {
			return err
		}
	}
}

func (r *redialClient) Dedicated(use func(rueidis.DedicatedClient) error) error {
	return r.now().Dedicated(use)
}

func (r *redialClient) Dedicate() (rueidis.DedicatedClient, func()) { return r.now().Dedicate() }
