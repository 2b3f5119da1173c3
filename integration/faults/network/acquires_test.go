package network_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/monitor"
)

// acquires are the acquire calls that reach Redis, also if their replies are lost.
type acquires struct {
	monitor *monitor.Monitor

	mu      sync.Mutex
	latest  string         // the digest of the script that was called last
	script  string         // that of the script that takes permits
	members map[string]int // of acquire calls: the member of a grant, which is random, and how often it was sent
}

func watch(t *testing.T, addr string) *acquires {
	t.Helper()
	require.True(t, monitor.Quotes(t, addr), "this server does not show which calls are sent again")
	a := &acquires{members: make(map[string]int)}
	a.monitor = monitor.Watch(t, addr, a.see)
	return a
}

// see reads a command: EVALSHA, digest, the number of keys, three or five keys, the time, the member,
// ...
func (a *acquires) see(c monitor.Command) {
	const digest, numkeys, least, most = 1, 2, 3, 5
	if c.Script || !strings.EqualFold(c.Name(), "EVALSHA") {
		return
	}
	words := c.Words()
	all, err := strconv.Atoi(words[numkeys])
	if err != nil || all < least || all > most || len(words) <= 1+numkeys+all+1 {
		return
	}
	args := words[1+numkeys+all:]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.latest = words[digest]
	if a.latest == a.script {
		a.members[args[1]]++
	}
}

// learn takes the latest script for the one that takes permits, and reports whether there is one.
func (a *acquires) learn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.script = a.latest
	return a.script != ""
}

// calls returns how many acquire calls reached Redis, and how many of them were sent again.
func (a *acquires) calls() (calls, again int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, times := range a.members {
		calls += times
		again += times - 1
	}
	return calls, again
}
