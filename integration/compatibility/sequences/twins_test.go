package sequences_test

import (
	"fmt"
	"strings"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// twins are the limiters A and B of one round, each with the one of another name that it may be
// renamed or copied to.
type twins struct {
	a, b     twin
	big      bool // a rate above 2^32
	client   bool // most rates are PER_CLIENT
	history  []string
	expiries int
	next     []calls.Call // to be made before others
}

// twin is a limiter and the one of another name, in turn: which of them is called changes.
type twin struct {
	name, other string
	id          string
}

func (w twin) keys() state.Keys { return state.KeysOf(w.name, w.id) }

func (w twin) otherKeys() state.Keys { return state.KeysOf(w.other, w.id) }

func (tw *twins) each(do func(w *twin)) {
	do(&tw.a)
	do(&tw.b)
}

// swap makes the limiters of the other names those that are called.
func (tw *twins) swap() {
	tw.each(func(w *twin) { w.name, w.other = w.other, w.name })
	tw.tell("the other name")
}

func (r *run) twins(title string) *twins {
	of := func(name string) twin {
		name = fmt.Sprintf("%s/%d/%s/%s", r.version, r.seed, title, name)
		return twin{name: name, other: name + "2", id: r.java.ID()}
	}
	return &twins{a: of("a"), b: of("b")}
}

// String is what happened to the limiters of the round.
func (tw *twins) String() string {
	const enough = 25
	return "what happened:\n" + strings.Join(tw.history[max(0, len(tw.history)-enough):], "\n")
}

func (tw *twins) tell(format string, args ...any) {
	tw.history = append(tw.history, fmt.Sprintf(format, args...))
}
