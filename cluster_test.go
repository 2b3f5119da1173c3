package rratelimiter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TestCluster_NodesDisagree_CallsTryTenTimesASecond, with a caller and without.
func TestCluster_NodesDisagree_CallsTryTenTimesASecond(t *testing.T) {
	redistest.RunCluster(t, func(c *redistest.Cluster) {
		l := New(c.Conn, WithLease(time.Second)).Limiter("limiter")
		require.NoError(c, l.SetRate(c.Context(), Rate{Permits: 1000, Interval: time.Hour}))
		for range 100 { // some permits are leased
			require.NoError(c, l.Acquire(c.Context(), 1))
			time.Sleep(time.Millisecond)
		}
		check := func(name string, d time.Duration, commands int) {
			rejected := c.Rejected()
			for _, node := range []string{redistest.NodeA, redistest.NodeB} {
				assert.InDelta(c, 10*d.Seconds(), rejected[node]/commands, 3*d.Seconds(), "%s, to node %s", name, node)
			}
		}
		c.Disagree("MOVED", "MOVED")
		time.Sleep(2 * time.Minute) // the lease ends, and is returned for a minute
		check("lease", time.Minute, 1)
		for name, call := range everyCall(l) {
			if name == "TryAcquireWithin" || name == "Copy" { // which end sooner
				continue
			}
			ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
			require.ErrorIs(c, call(ctx), context.DeadlineExceeded, name)
			cancel()
			time.Sleep(time.Second) // what the call began ends
			commands := 1
			if name == "SizeInMemory" {
				commands = len(l.wire.keys) // in a pipeline
			}
			check(name, 5*time.Second, commands)
		}
	})
}

// withMode is a client that reports a mode.
type withMode struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (c withMode) Mode() rueidis.ClientMode { return c.mode }

func FuzzNames(f *testing.F) {
	for _, name := range []string{"", "a", "api:login", "{tenant7}:second", "a}b", "a{b", "{}a", "a{}{b}", "{a}{b}",
		"{{a}}", "}{", "\x00", "\xff{\xfe}", "日本{語}"} {
		f.Add(name, "api:login")
		f.Add(name, "{tenant7}:minute")
	}
	id := uuid.MustParse("0198f1a2-7c3d-7e4f-8a5b-6c7d8e9fa0b1")
	// A client without a server panics on any call.
	f.Fuzz(func(t *testing.T, name, other string) {
		single := New(withMode{mode: rueidis.ClientModeStandalone}, WithClientID(id))
		cluster := New(withMode{mode: rueidis.ClientModeCluster}, WithClientID(id))
		l := single.Limiter(name)
		require.Equal(t, name, l.Name())
		if name == "" {
			require.ErrorIs(t, l.err, ErrInvalidName)
			require.ErrorIs(t, cluster.Limiter(name).err, ErrInvalidName)
			return
		}
		require.NoError(t, l.err)

		prefix := "{" + name + "}"
		if strings.ContainsRune(name, '{') {
			prefix = name
		}
		want := limiterKeys{name, prefix + ":value", prefix + ":permits", prefix + ":value:" + id.String(),
			prefix + ":permits:" + id.String()}
		require.Equal(t, want, l.wire.keys)

		slots := make([]uint16, len(want))
		for i, key := range want {
			slots[i] = redisx.Slot(key)
		}
		err := cluster.Limiter(name).err
		if slices.Max(slots) == slices.Min(slots) {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ErrCrossSlot)
			require.ErrorContains(t, err, fmt.Sprintf("slot %d", slots[0]))
			require.True(t, strings.ContainsAny(name, "{}"), "a name without braces has one slot")
		}

		if other == "" || err != nil || cluster.Limiter(other).err != nil || redisx.Slot(other) == slots[0] {
			return
		}
		require.ErrorIs(t, cluster.Limiter(name).Rename(t.Context(), other), ErrCrossSlot)
		_, err = cluster.Limiter(name).Copy(t.Context(), other, Replace())
		require.ErrorIs(t, err, ErrCrossSlot)
	})
}
