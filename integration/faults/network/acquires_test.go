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
	latest  string          // the digest of the script that was called last
	scripts map[string]bool // those of the scripts that take permits
	members map[string]int  // of acquire calls: the member of a grant, which is random, and how often it was sent
}

func watch(t *testing.T, addr string) *acquires {
	t.Helper()
	require.True(t, monitor.Quotes(t, addr), "this server does not show which calls are sent again")
	a := &acquires{scripts: make(map[string]bool), members: make(map[string]int)}
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
	if a.scripts[a.latest] {
		a.members[args[1]]++
	}
}

// learn adds the latest script to those that take permits, and returns their number.
func (a *acquires) learn() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.latest != "" {
		a.scripts[a.latest] = true
	}
	return len(a.scripts)
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
