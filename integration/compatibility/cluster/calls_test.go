package cluster_test

import (
	"fmt"
	"testing"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
)

// Limiters in each sixtieth of the slots, on all masters, and names with hash tags.
func TestCalls_NamesInEverySlotRange_GoAndJavaAgree(t *testing.T) {
	const ranges, workers = 60, 8
	names := append(namesInEverySlotRange(t, ranges), "{tenant7}:second", "{tenant7}:minute", "api:{tenant8}", "{a}{b}",
		"{a}}", "{user 1}:ü", "a{b}c{", "{a}{", "x{{a}}y", "{{}", "a}{b}")
	for worker := range workers {
		t.Run(fmt.Sprintf("worker%d", worker), func(t *testing.T) {
			t.Parallel()
			for i := worker; i < len(names); i += workers {
				calls.Every(t, client, redisson, version, names[i], false)
				if i%4 == 0 || i >= ranges {
					calls.Every(t, client, redisson, version, names[i], true)
				}
			}
		})
	}
}

// namesInEverySlotRange returns n names, one in each n-th part of the slots.
func namesInEverySlotRange(t *testing.T, n int) []string {
	t.Helper()
	const slots = 16384
	found := make([]string, n)
	missing := n
	for start := 0; missing > 0; start += 4096 {
		candidates := make([]string, 4096)
		for i := range candidates {
			candidates[i] = fmt.Sprintf("user:%d", start+i)
		}
		for i, slot := range slotsOf(t, candidates...) {
			if part := int(slot) * n / slots; found[part] == "" {
				found[part] = candidates[i]
				missing--
			}
		}
	}
	return found
}
