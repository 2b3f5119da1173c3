package middleware

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

const outage = 2 * time.Second

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// Redis is killed or hangs, and recovers.
func TestOutages_FailureModes_DecideAsDocumented(t *testing.T) {
	modes := map[string]limit.FailureMode{
		"open": limit.Open, "closed": limit.Closed, "local": limit.Local(share),
	}
	for fault, f := range map[string]struct{ breaks, repairs func(*servers.Server) error }{
		"killed": {(*servers.Server).Kill, (*servers.Server).Restart},
		"paused": {(*servers.Server).Pause, (*servers.Server).Resume},
	} {
		for name, mode := range modes {
			t.Run(fault+" "+name, func(t *testing.T) {
				t.Parallel()
				server := servers.Single(t)
				l := start(t, server.Addr(), mode)
				time.Sleep(time.Second)
				broken := time.Now()
				require.NoError(t, f.breaks(server))
				l.await(false)
				time.Sleep(outage)
				repaired := time.Now()
				require.NoError(t, f.repairs(server))
				back := l.await(true)
				time.Sleep(time.Second)
				checkDecisions(t, l, mode, broken, repaired, back)
			})
		}
	}
}

// checkDecisions checks the decisions of a load.
func checkDecisions(t *testing.T, l *load, mode limit.FailureMode, broken, repaired, back time.Time) {
	decisions := l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range l.changes {
		assert.Equal(t, i%2 == 1, c.up, "the reports of the callback alternate")
	}
	assert.Len(t, l.changes, 2, "down once, and up once")

	var during, slow, after int
	local := make(map[string]int)
	for _, d := range decisions {
		assert.Less(t, d.took, deadline+slack, "a request waited longer than its deadline")
		failed := d.local || d.result == limit.FailedOpen || d.result == limit.FailedClosed
		switch {
		case d.at.Before(broken), d.at.Add(-d.took).After(back.Add(slack)):
			assert.False(t, failed, "%+v while Redis is up", d)
		case d.at.After(broken.Add(deadline+slack)) && d.at.Before(repaired):
			during++
			assert.True(t, failed, "%+v while Redis is down", d)
			if d.took > deadline/2 {
				slow++
			}
		}
		if d.at.After(back) && !failed {
			after++
		}
		if failed {
			switch mode {
			case limit.Open:
				assert.Equal(t, limit.FailedOpen, d.result)
			case limit.Closed:
				assert.Equal(t, limit.FailedClosed, d.result)
			default:
				assert.True(t, d.local)
				if d.result == limit.Acquired {
					local[d.key]++
				}
			}
		}
	}
	assert.Positive(t, after, "decisions of Redis when it is back")
	assert.Less(t, slow, during/10, "most requests do not wait for a Redis that is known to be down")
	if mode != limit.Open && mode != limit.Closed {
		// Of a share of 10 a second: 5 at once, and 6 a second, from the first failure to the last.
		down := back.Add(slack).Sub(broken)
		most := 5 + int(6*down/interval) + 1
		assert.Len(t, local, keys)
		for key, granted := range local {
			assert.LessOrEqual(t, granted, most, "key %s in %v", key, down)
			assert.Greater(t, granted, most/4, "key %s in %v", key, down)
		}
	}
	t.Logf("%d requests, %d in the outage, %d of them slow, down after %v, up after %v, local grants %v",
		len(decisions), during, slow,
		l.changes[0].at.Sub(broken).Round(time.Millisecond), back.Sub(repaired).Round(time.Millisecond), local)
}
