package redisx

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// nodesOf returns the pipelines of a cluster that know the slots.
func nodesOf(c *redistest.Cluster) *Pipelines {
	p := NewPipelines(c.Conn, alone)
	assert.Nil(c, p.Of("k"), "before the slots are known")
	time.Sleep(time.Second)
	return p
}

// callAll makes a call for each of 100 keys at the same time, and returns how long those of the first
// and of the second half of the slots took.
func callAll(c *redistest.Cluster, p *Pipelines) (took [2]time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for i := range 100 {
		key := fmt.Sprint("key:", i)
		all.Go(func() {
			_, err := p.Of(key).Do(c.Context(), echoScript, []string{key}, nil)
			assert.NoError(c, err)
			mu.Lock()
			defer mu.Unlock()
			half := int(Slot(key)) / 8192
			took[half] = max(took[half], time.Since(start))
		})
	}
	all.Wait()
	return took
}

func TestPipelines_SlowNode_DelaysNoOther(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		p := nodesOf(c)
		c.Delay(redistest.NodeB, time.Second)
		took := callAll(c, p)
		assert.Less(c, took[0], time.Millisecond)
		assert.GreaterOrEqual(c, took[1], time.Second)
		require.NotSame(c, p.rangeOf(0).pipeline, p.rangeOf(8192).pipeline)
		for slot := range int64(16384) {
			require.Same(c, p.rangeOf(slot/8192*8192).pipeline, p.rangeOf(slot).pipeline, slot)
		}
	})
}

// TestPipelines_SlotsAreServedLater_AreFound: a cluster that starts serves none.
func TestPipelines_SlotsAreServedLater_AreFound(t *testing.T) {
	redistest.RunCluster(t, func(c *redistest.Cluster) {
		c.Serve()
		p := nodesOf(c)
		assert.Nil(c, p.Of("k"))
		time.Sleep(time.Second) // the first answer, none, has arrived
		c.Serve(redistest.NodeA)
		assert.Nil(c, p.Of("k"))
		time.Sleep(time.Millisecond)
		assert.NotNil(c, p.Of("k"))
		// With cluster-preferred-endpoint-type unknown-endpoint, the client connects to the host that it has asked.
		c.Serve(":1")
		assert.NotNil(c, nodesOf(c).Of("k"))
	})
}

// TestPipelines_SlotMoves_CallsFollow: each is sent again alone. The slots are asked for once a second.
func TestPipelines_SlotMoves_CallsFollow(t *testing.T) {
	redistest.RunCluster(t, func(c *redistest.Cluster) {
		p := nodesOf(c)
		c.Redirect(redistest.NodeA, "MOVED 0 "+redistest.NodeB)
		for range 3 {
			callAll(c, p)
		}
		assert.Equal(c, 2, c.Asked())
		time.Sleep(time.Second)
		callAll(c, p)
		time.Sleep(time.Millisecond)
		assert.Equal(c, 3, c.Asked())
		c.Redirect(redistest.NodeA, "")
		callAll(c, p)
		time.Sleep(59 * time.Second)
		callAll(c, p)
		assert.Equal(c, 3, c.Asked())
		time.Sleep(time.Second)
		callAll(c, p)
		time.Sleep(time.Millisecond)
		assert.Equal(c, 4, c.Asked(), "after a minute")
	})
}

// TestPipelines_RedirectedCall_DelaysNoOther: the nodes disagree about the slot of one call.
func TestPipelines_RedirectedCall_DelaysNoOther(t *testing.T) {
	redistest.RunCluster(t, func(c *redistest.Cluster) {
		p := nodesOf(c).Of("k")
		c.Disagree("MOVED", "MOVED")
		time.AfterFunc(500*time.Millisecond, func() { c.Redirect(redistest.NodeA, "") })
		start := time.Now()
		call := &Call{Script: echoScript, Keys: []string{"k"}, Done: func() {}}
		p.Send(c.Context(), p.Add(call))
		assert.ErrorIs(c, call.Err, errRedirected)
		assert.True(c, Repeats(call.Err))
		assert.Less(c, time.Since(start), time.Millisecond)
		_, err := p.Do(c.Context(), echoScript, []string{"k"}, nil)
		require.NoError(c, err)
		assert.InDelta(c, 0.75, time.Since(start).Seconds(), 0.25)
	})
}

// TestPipelines_SlotWithoutNode_FailsNoOther: rueidis then fails all calls of its pipeline. The client
// may know of such a slot before the Pipelines do, and after.
func TestPipelines_SlotWithoutNode_FailsNoOther(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		p := nodesOf(c)
		c.Serve("", redistest.NodeA, "", redistest.NodeB)
		c.Redirect(redistest.NodeA, "MOVED 0 "+redistest.NodeB)
		_, err := echoScript.Exec(c.Context(), c.Conn, []string{"k"}, nil)
		require.NoError(c, err)
		time.Sleep(2 * time.Second) // the client has asked for the slots
		c.Redirect(redistest.NodeA, "")
		for range 2 {
			var all sync.WaitGroup
			for i := range 100 {
				key := fmt.Sprint("key:", i)
				all.Go(func() {
					var err error
					if p := p.Of(key); p != nil {
						_, err = p.Do(c.Context(), echoScript, []string{key}, nil)
					} else {
						_, err = echoScript.Exec(c.Context(), c.Conn, []string{key}, nil)
					}
					if Slot(key)/4096%2 == 0 {
						assert.ErrorIs(c, err, rueidis.ErrNoSlot)
					} else {
						assert.NoError(c, err)
					}
				})
			}
			all.Wait()
			time.Sleep(time.Minute)
			p.sent(nil)
			time.Sleep(time.Second)
		}
		for slot := range int64(16384) {
			require.Equal(c, slot/4096%2 == 1, p.rangeOf(slot).pipeline != nil, slot)
		}
	})
}

// TestPipelines_ClockIsSetBack_SlotsAreAskedFor: not only when it has caught up.
func TestPipelines_ClockIsSetBack_SlotsAreAskedFor(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		p := nodesOf(c)
		asked := c.Asked()
		p.asked.Store(time.Now().Add(time.Hour).UnixNano())
		p.sent(nil)
		time.Sleep(time.Second)
		assert.Equal(c, asked+1, c.Asked())
	})
}

// TestPipelines_Node_ServesTheKey: after a redirection the slots may be a second old, else a minute.
func TestPipelines_Node_ServesTheKey(t *testing.T) {
	redistest.RunTwoMasters(t, func(c *redistest.Cluster) {
		p := nodesOf(c)
		for i := range 100 {
			key := fmt.Sprint("key:", i)
			node := []string{redistest.NodeA, redistest.NodeB}[Slot(key)/8192]
			assert.Equal(c, node, p.Node(key, false))
			assert.Equal(c, node, p.Address(node))
		}
		for moved, want := range map[bool]int{false: 0, true: 1} {
			time.Sleep(time.Second)
			before := c.Asked()
			p.Node("k", moved)
			time.Sleep(time.Millisecond)
			assert.Equal(c, want, c.Asked()-before)
		}
		assert.Empty(c, p.Address(""))
	})
}
