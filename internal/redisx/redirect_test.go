package redisx

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// until is the context of a call that ends at a time, as those of the engine: it has no Done.
type until struct {
	context.Context
	end time.Time
}

func (until) Done() <-chan struct{}             { return nil }
func (until) Deadline() (at time.Time, ok bool) { return at, false }
func (c until) Err() error {
	if time.Now().Before(c.end) {
		return nil
	}
	return context.DeadlineExceeded
}

// echoScript replies its first key, the numbers of its keys and arguments, and the arguments.
var echoScript = NewScript("return {KEYS[1], #KEYS, #ARGV, unpack(ARGV)}")

// repeat makes a call until it is not to be made again.
func repeat(ctx context.Context, call func() error) (err error) {
	for attempt := 0; attempt == 0 || Again(ctx, err, attempt); attempt++ {
		err = call()
	}
	return err
}

// ways are the ways to call a Redis.
var ways = map[string]func(ctx context.Context, redis rueidis.Client) error{
	"script": func(ctx context.Context, redis rueidis.Client) error {
		_, err := (&Call{Script: echoScript, Keys: []string{"k"}}).Exec(ctx, redis, nil)
		return err
	},
	"command": func(ctx context.Context, redis rueidis.Client) error {
		_, err := Do(ctx, redis, redis.B().Arbitrary("EXISTS").Keys("k").Build())
		return err
	},
	"commands": func(ctx context.Context, redis rueidis.Client) error {
		return DoMulti(ctx, redis, rueidis.Commands{redis.B().Arbitrary("EXISTS").Keys("k").Build()})[0].Error()
	},
}

// With a reshard that stopped half way, two nodes send each other the callers of a slot.
func TestAgain_NodesDisagree_TriesTenTimesASecond(t *testing.T) {
	for name, call := range ways {
		for _, kinds := range [][2]string{{"MOVED", "MOVED"}, {"ASK", "MOVED"}} {
			t.Run(name+" "+kinds[0]+" "+kinds[1], func(t *testing.T) {
				redistest.RunCluster(t, func(c *redistest.Cluster) {
					c.Disagree(kinds[0], kinds[1])
					ctx := until{RetryUntilEnd(c.Context()), time.Now().Add(10 * time.Second)}
					start := time.Now()
					err := repeat(ctx, func() error { return call(ctx, c.Conn) })
					require.Error(c, err)
					assert.InDelta(c, 10, time.Since(start).Seconds(), 0.1)
					for node, tries := range c.Rejected() {
						assert.InDelta(c, 110, tries, 20, "to node %s", node)
					}
				})
			})
		}
	}
}

// A call finds the node of its slot without a pause, and when nodes agree again.
func TestAgain_NodeRunsTheCall_EndsIt(t *testing.T) {
	for name, call := range ways {
		t.Run(name, func(t *testing.T) {
			redistest.RunCluster(t, func(c *redistest.Cluster) {
				ctx := until{c.Context(), time.Now().Add(time.Minute)}
				c.Redirect(redistest.NodeA, "ASK 0 "+redistest.NodeB)
				start := time.Now()
				require.NoError(c, call(ctx, c.Conn))
				assert.Less(c, time.Since(start), time.Millisecond)

				c.Disagree("MOVED", "MOVED")
				time.AfterFunc(5*time.Second, func() { c.Redirect(redistest.NodeB, "") })
				start = time.Now()
				require.NoError(c, repeat(ctx, func() error { return call(ctx, c.Conn) }))
				assert.InDelta(c, 5, time.Since(start).Seconds(), 0.1)
			})
		})
	}
}
