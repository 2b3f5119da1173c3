package rratelimiter

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	inmemory "github.com/rratelimiter/rratelimiter/internal/bubble"
)

// TestScripts_Overall_NameNoKeysOfAClient: while a slot migrates, a cluster refuses a script that names a key which does
// not exist. So no script names the client's own keys for an OVERALL limiter, refunds included.
func TestScripts_Overall_NameNoKeysOfAClient(t *testing.T) {
	for kind, want := range map[RateType]int{Overall: sharedKeys, PerClient: len(keys{})} {
		t.Run(kind.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Type: kind, Permits: 10, Interval: time.Hour})
				b.Take(l, 1) // and the hint is there
				var mu sync.Mutex
				named := make(map[int]int)
				b.Redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
					if names, _ := inmemory.ScriptCall(command, args); names != nil {
						mu.Lock()
						named[len(names)]++
						mu.Unlock()
					}
					return false
				})
				b.Take(l, 1)
				b.Free(l, 8)
				require.NoError(b, l.Release(b.Context(), 1))
				b.Latency.Store(int64(10 * time.Millisecond))
				ctx, cancel := context.WithTimeout(b.Context(), 5*time.Millisecond)
				defer cancel()
				_, err := l.TryAcquire(ctx, 3) // refunded
				require.ErrorIs(b, err, context.DeadlineExceeded)
				pass(second)
				b.Latency.Store(0)
				b.Free(l, 9)
				assert.Equal(b, map[int]int{want: 6}, named, "keys of each script call")
			})
		})
	}
}

// TestRefund_SlotIsMoving_IsRepeated: a refund that the cluster refuses unread is repeated after the quarter of a second
// that a call of a waiting caller is.
func TestRefund_SlotIsMoving_IsRepeated(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		b.granted(l, "a", 3)
		b.Reply("EVALSHA", "", func(peer *server.Peer, _ []string) { peer.WriteError("TRYAGAIN Multiple keys request") })
		done := make(chan error, 1)
		go func() { done <- l.wire.giveBack(context.Background(), 3, member("a", 3)[:17], 3) }()
		pass(2 * second)
		b.Reply("", "none", nil)
		require.NoError(b, <-done)
		b.Free(l, 10)
	})
}

// TestHint_Count_IsDueOncePerInterval: one call counts at a time, another one in its place after a second.
func TestHint_Count_IsDueOncePerInterval(t *testing.T) {
	const interval = 80_000
	h := new(hint)
	check := func(now int64, rate, cursor string) {
		t.Helper()
		gotRate, _, gotCursor := h.ask(now)
		assert.Equal(t, rate, gotRate, "at %d", now)
		assert.Equal(t, cursor, gotCursor, "at %d", now)
	}
	check(0, "", "")
	check(0, "", "") // the limiter is not known
	h.learn(0, 10, interval, false, countDone)
	check(1, "10", "")
	check(39_999, "10", "")
	check(40_000, "", "")
	check(40_001, "10", "") // a call counts
	check(40_999, "10", "")
	check(41_000, "", "") // it has not been answered
	h.learn(41_000, 10, interval, false, "9 256 256")
	check(41_001, "10", "9 256 256")
	check(41_001, "10", "")
	h.learn(41_002, 10, interval, false, "9 512 512")
	check(41_002, "10", "9 512 512")
	h.learn(41_003, 10, interval, false, countRestart)
	check(46_002, "10", "")
	check(46_003, "", "")
	h.learn(46_004, 20, interval, false, countDone)
	check(46_005, "20", "")
	check(-10, "", "") // the clock was set back
	h.learn(-5, 20, interval, false, countDue)
	check(-5, "", "") // the call before could not count
	h.learn(-5, 20, interval, false, "cut 7")
	check(interval-6, "20", "cut 7")
	h.learn(-5, 20, interval, false, "cut 7")
	check(interval-5, "", "") // another client may have removed those grants long ago
	h.learn(interval, 20, 100, false, countDue)
	check(interval, "", "")
	check(interval+99, "20", "")
	check(interval+100, "", "") // a count that is not answered delays the next by an interval at most
}

// TestHints_ManyNames_AreBounded: two generations of hints, and a Limiter keeps its own.
func TestHints_ManyNames_AreBounded(t *testing.T) {
	var s hints
	first := s.of("first")
	for i := range mostHints - 1 {
		s.of(fmt.Sprint(i))
	}
	assert.Same(t, first, s.of("first"))
	s.of("another generation")
	assert.Same(t, first, s.of("first"), "a name in use stays")
	for i := range 2 * mostHints {
		s.of(fmt.Sprint("x", i))
	}
	assert.NotSame(t, first, s.of("first"))
	assert.LessOrEqual(t, len(s.current)+len(s.earlier), 2*mostHints)
}

// TestPages_CallerLeaves_EndsTheCalls: a script that always has more to do is not called for a caller that has left.
func TestPages_CallerLeaves_EndsTheCalls(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Limiter) error{
		"AvailablePermits": func(ctx context.Context, l *Limiter) error { _, err := l.AvailablePermits(ctx); return err },
		"Release":          func(ctx context.Context, l *Limiter) error { return l.Release(ctx, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
				b.Latency.Store(int64(time.Millisecond))
				b.Reply("EVALSHA", "", func(peer *server.Peer, _ []string) {
					peer.WriteLen(2)
					peer.WriteInt(replyAgain)
					peer.WriteBulk("")
				})
				ctx, cancel := context.WithTimeout(b.Context(), 20*time.Millisecond)
				defer cancel()
				require.ErrorIs(b, call(ctx, l), context.DeadlineExceeded)
				pass(10 * time.Millisecond)
				before := b.Scripts.Load()
				pass(second)
				assert.Equal(b, before, b.Scripts.Load(), "calls for a caller that has left")
			})
		})
	}
}
