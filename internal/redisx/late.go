package redisx

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
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

// late is a client whose calls fail until it has connected.
type late struct {
	client  atomic.Pointer[rueidis.Client] // one that cannot dial, then the one that connect returned
	known   atomic.Pointer[rueidis.Client] // the one that connect returned
	none    rueidis.Client                 // the one that cannot dial
	failure atomic.Pointer[error]          // of the last attempt
	closed  context.Context                //nolint:containedctx // ended by Close
	close   context.CancelFunc
}

const (
	lateRetry = time.Second // between two attempts to connect
	// The mode is known so long before commands are built for it. A call whose keys were checked for a single
	// Redis may have keys of several slots, and the builder of a cluster panics on them.
	lateSwitch = 50 * time.Millisecond
)

// Late returns a client whose calls fail until connect returns a client, which is called every second.
// They fail with its last error, at first with failure. Close ends the attempts.
func Late(failure error, connect func() (rueidis.Client, error)) rueidis.Client {
	l := new(late)
	l.failure.Store(&failure)
	l.closed, l.close = context.WithCancel(context.Background())
	// NewClient returns a client of a single server also if it cannot dial.
	l.none, _ = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"redis"}, ForceSingleClient: true, DisableRetry: true, DisableCache: true,
		PipelineMultiplex: -1,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, *l.failure.Load()
		},
	})
	l.client.Store(&l.none)
	go l.connect(connect)
	return l
}

func (l *late) connect(connect func() (rueidis.Client, error)) {
	for {
		select {
		case <-l.closed.Done():
			return
		case <-time.After(lateRetry):
		}
		client, err := connect()
		if err == nil {
			l.known.Store(&client)
			time.Sleep(lateSwitch)
			l.client.Store(&client)
			context.AfterFunc(l.closed, client.Close)
			return
		}
		l.failure.Store(&err)
	}
}

func (l *late) now() rueidis.Client { return *l.client.Load() }

// ready returns the client for commands. If they were built before the client of a cluster was there, it
// is the one that cannot dial: they have no slot, and that client would panic.
func (l *late) ready(commands ...rueidis.Completed) rueidis.Client {
	client := l.now()
	if client == l.none || client.Mode() != rueidis.ClientModeCluster {
		return client
	}
	const noSlot = 1 << 15
	if slices.ContainsFunc(commands, func(c rueidis.Completed) bool { return c.Slot()&noSlot != 0 }) {
		return l.none
	}
	return client
}

// The methods of rueidis.Client.

func (l *late) B() rueidis.Builder { return l.now().B() }

func (l *late) Mode() rueidis.ClientMode {
	if client := l.known.Load(); client != nil {
		return (*client).Mode()
	}
	return l.none.Mode()
}

func (l *late) Nodes() map[string]rueidis.Client {
	if client := l.now(); client != l.none {
		return client.Nodes()
	}
	return nil
}

func (l *late) Close() { l.close() }

func (l *late) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	return l.ready(command).Do(ctx, command)
}

func (l *late) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	return l.ready(commands...).DoMulti(ctx, commands...)
}

func (l *late) DoCache(ctx context.Context, command rueidis.Cacheable, ttl time.Duration) rueidis.RedisResult {
	return l.ready(rueidis.Completed(command)).DoCache(ctx, command, ttl)
}

func (l *late) DoMultiCache(ctx context.Context, commands ...rueidis.CacheableTTL) []rueidis.RedisResult {
	plain := make([]rueidis.Completed, len(commands))
	for i, c := range commands {
		plain[i] = rueidis.Completed(c.Cmd)
	}
	return l.ready(plain...).DoMultiCache(ctx, commands...)
}

func (l *late) DoStream(ctx context.Context, command rueidis.Completed) rueidis.RedisResultStream {
	return l.ready(command).DoStream(ctx, command)
}

func (l *late) DoMultiStream(ctx context.Context, commands ...rueidis.Completed) rueidis.MultiRedisResultStream {
	return l.ready(commands...).DoMultiStream(ctx, commands...)
}

func (l *late) Receive(ctx context.Context, subscribe rueidis.Completed, each func(rueidis.PubSubMessage)) error {
	return l.ready(subscribe).Receive(ctx, subscribe, each)
}

func (l *late) Dedicated(use func(rueidis.DedicatedClient) error) error {
	return l.now().Dedicated(use)
}

func (l *late) Dedicate() (rueidis.DedicatedClient, func()) { return l.now().Dedicate() }
