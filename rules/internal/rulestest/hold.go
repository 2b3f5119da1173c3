package rulestest

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// TwoRules returns a file of two rules that decide one after another, with these names.
func TwoRules(first, second string) string {
	return "match: all\nrules:\n- {name: " + first + ", key: all, limits: 1000/h}\n" +
		"- {name: " + second + ", key: all, limits: 1000/h, cost: 2}\n"
}

// Hold holds requests of middleware after their first decision.
type Hold struct {
	mu      sync.Mutex
	names   map[string]int // decisions by limiter
	release chan struct{}
}

// NewHold returns a Hold whose Report is to be the callback of the decisions.
func NewHold() *Hold { return &Hold{names: make(map[string]int), release: make(chan struct{})} }

// Report counts a decision, and holds its request if it is the first one.
func (h *Hold) Report(limiter string) {
	h.mu.Lock()
	h.names[limiter]++
	h.mu.Unlock()
	<-h.release
}

// Test sends 100 requests, replaces the file TwoRules("a", "b") while all of them are held, and checks
// that the old file decides them, twice each. Then it checks that the new one, TwoRules("c", "d"),
// decides the next request.
func (h *Hold) Test(t *testing.T, send, replace func()) {
	var requests sync.WaitGroup
	for range 100 {
		requests.Go(send)
	}
	synctest.Wait()
	assert.Equal(t, map[string]int{"a": 100}, h.names)
	replace()
	close(h.release)
	requests.Wait()
	assert.Equal(t, map[string]int{"a": 100, "b": 100}, h.names)
	send()
	assert.Equal(t, map[string]int{"a": 100, "b": 100, "c": 1, "d": 1}, h.names)
}
