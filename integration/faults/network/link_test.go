package network_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
)

// Callers take permits while the network fails. No permit is lost, and no call fails in other ways
// than its fault explains.
func TestNetwork_EachFault_NoPermitIsLost(t *testing.T) {
	const often = 500 * time.Millisecond
	delay := func(toxic, stream, attributes string) func(*testing.T, *link) {
		return func(t *testing.T, l *link) {
			l.proxy.Disturb(t, toxic, stream, attributes)
			time.Sleep(2 * time.Second)
		}
	}
	for fault, test := range map[string]struct {
		timeout time.Duration // of the calls
		disturb func(*testing.T, *link)
		some    []string // kinds of errors, one of which occurs
		only    []string // kinds that may occur; nil: any known one
	}{
		"connections reset, 10 times": {often, func(t *testing.T, l *link) {
			for range 10 {
				time.Sleep(200 * time.Millisecond)
				restore := l.proxy.Disturb(t, "reset_peer", "downstream", `"timeout": 0`)
				time.Sleep(50 * time.Millisecond)
				restore()
			}
			time.Sleep(time.Second)
		}, []string{"cut"}, nil},
		// Nothing listens, then the network is back.
		"network gone, twice for 0.7 s": {often, func(t *testing.T, l *link) {
			addr := l.proxy.Listen
			for range 2 {
				time.Sleep(500 * time.Millisecond)
				l.proxy.Stop()
				time.Sleep(700 * time.Millisecond)
				require.NoError(t, l.proxy.Start())
				require.Equal(t, addr, l.proxy.Listen)
			}
			time.Sleep(time.Second)
		}, []string{"cut", "refused"}, nil},
		// Replies are lost although the calls took effect.
		"connections end after 1500 bytes of replies": {often, delay("limit_data", "downstream", `"bytes": 1500`),
			[]string{"cut"}, nil},
		// Connections stay open but transfer nothing, as after a firewall has dropped their state. Calls
		// end with their contexts, and rueidis replaces the connections that it closed.
		"half-open connections for 3 s": {often, func(t *testing.T, l *link) {
			time.Sleep(500 * time.Millisecond)
			restoreUp := l.proxy.Disturb(t, "timeout", "upstream", `"timeout": 0`)
			restoreDown := l.proxy.Disturb(t, "timeout", "downstream", `"timeout": 0`)
			time.Sleep(givenUp + time.Second)
			restoreUp()
			restoreDown()
			time.Sleep(time.Second)
		}, []string{"deadline"}, nil},
		"latency 60 ms, jitter 45 ms": {time.Second, func(t *testing.T, l *link) {
			l.proxy.Disturb(t, "latency", "upstream", `"latency": 20, "jitter": 15`)
			delay("latency", "downstream", `"latency": 40, "jitter": 30`)(t, l)
		}, nil, []string{"deadline", "cancelled"}},
		// Most callers have gone before their reply.
		"latency above the callers' timeouts": {300 * time.Millisecond,
			delay("latency", "downstream", `"latency": 300, "jitter": 100`), []string{"deadline"},
			[]string{"deadline", "cancelled"}},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			l := newLink(t, manyConnections)
			l.load(t, test.timeout, func() { test.disturb(t, l) })
			kinds := l.end(t, fault)
			some := int64(0)
			for _, kind := range test.some {
				some += kinds[kind]
			}
			require.True(t, some > 0 || test.some == nil, "no error of %v: %v", test.some, kinds)
			for kind := range kinds {
				require.True(t, test.only == nil || slices.Contains(test.only, kind), kind)
			}
		})
	}
}

// Without a deadline a call fails when rueidis closes its connection.
func TestNetwork_HalfOpenWithoutDeadline_IsGivenUp(t *testing.T) {
	t.Parallel()
	l := newLink(t, manyConnections)
	l.proxy.Disturb(t, "timeout", "upstream", `"timeout": 0`)
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			start := time.Now()
			granted, err := l.books.Time("go", 1, func() (bool, error) {
				return everycall.Acquire(context.Background(), l.limiter, i, 1, 50*time.Millisecond)
			})
			assert.Error(t, err)
			assert.False(t, granted)
			assert.Less(t, time.Since(start), 3*givenUp+late)
		})
	}
	callers.Wait()
	l.end(t, "half-open connection, no deadline")
}
