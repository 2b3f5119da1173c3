package network_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Callers take permits while the network fails. No permit is lost, and no call fails in other ways
// than its fault explains. Package outages has faults that end all connections.
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
		some    string   // a kind of errors that occurs
		only    []string // kinds that may occur; nil: any known one
	}{
		// Replies are lost although the calls took effect.
		"connections end after 1500 bytes of replies": {often, delay("limit_data", "downstream", `"bytes": 1500`),
			"cut", nil},
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
		}, "deadline", nil},
		"latency 60 ms, jitter 45 ms": {time.Second, func(t *testing.T, l *link) {
			l.proxy.Disturb(t, "latency", "upstream", `"latency": 20, "jitter": 15`)
			delay("latency", "downstream", `"latency": 40, "jitter": 30`)(t, l)
		}, "", []string{"deadline", "cancelled"}},
		// Most callers have gone before their reply.
		"latency above the callers' timeouts": {300 * time.Millisecond,
			delay("latency", "downstream", `"latency": 300, "jitter": 100`), "deadline",
			[]string{"deadline", "cancelled"}},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			l := newLink(t, 2)
			l.load(t, test.timeout, func() {
				test.disturb(t, l)
				// On a busy machine, few calls are made meanwhile.
				require.Eventually(t, func() bool { return test.some == "" || l.books.Errors()[test.some] > 0 },
					time.Minute, 10*time.Millisecond, "no error of %s", test.some)
			})
			kinds := l.end(t, fault)
			for kind := range kinds {
				require.True(t, test.only == nil || slices.Contains(test.only, kind), kind)
			}
		})
	}
}
