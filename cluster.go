package rratelimiter

import (
	"fmt"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// checkSlots returns ErrCrossSlot if the keys of a name, or of both names of a rename or copy, do not share a
// slot. The keys of a name without braces always do; with Redisson too, other names may not.
func checkSlots(all ...string) error {
	return shareSlot("use names without braces, or with one non-empty hash tag (the same in both names of a rename or copy)",
		all)
}

// shareSlot returns ErrCrossSlot, with advice, if the keys do not share a slot.
func shareSlot(advice string, all []string) error {
	for _, key := range all[1:] {
		if redisx.Tag(key) == redisx.Tag(all[0]) {
			continue
		}
		if want, got := redisx.Slot(all[0]), redisx.Slot(key); got != want {
			return fmt.Errorf("%w: %q is in slot %d, %q in slot %d: %s", ErrCrossSlot, all[0], want, key, got, advice)
		}
	}
	return nil
}
