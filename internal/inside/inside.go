// Package inside shows what packages rratelimiter and limit do not export to those that are built on them. The package that has it
// sets the variable.
package inside

import (
	"context"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// Client is a *rratelimiter.Client from within.
type Client struct {
	Engine *engine.Engine

	// Names gives a limiter's name as its keys have it, or says what is wrong with it, or with the slots of the keys.
	Names interface {
		Mapped(name string) (string, error)
	}
}

// AppendTag appends what the keys of a limiter's parts begin with. A name without a brace becomes the hash tag, so that a key
// shares the slot of the name on a cluster; in a name with a brace the user has set the tag.
func AppendTag(text []byte, name string) []byte {
	if strings.Contains(name, "{") {
		return append(append(text, name...), ':')
	}
	return append(append(append(text, '{'), name...), "}:"...)
}

// Open gives a *rratelimiter.Client from within, or says what is wrong with it.
var Open func(client any) (Client, error)

// Limiter is a *rratelimiter.Limiter from within.
type Limiter struct {
	Client Client
	Keys   []string // in the order of its scripts; the first is the configuration's
	Types  []string // what each of them holds, as TYPE names it

	// Outlook makes an outlook of a reply.
	Outlook func(Reply) engine.Outlook

	// Release gives permits back, the oldest first; GiveBack those of one grant.
	Release  func(ctx context.Context, permits int64) error
	GiveBack func(ctx context.Context, permits int64, member string, granted int64) error

	// CountDrift corrects drift, if a count of the limiter's permits is due.
	CountDrift func(ctx context.Context)
}

// Reply is what a script told of a limiter. Times are milliseconds.
type Reply struct {
	Rate, Interval, Free, Reset int64
	Returns                     []int64 // pairs: after so long, so many permits come back
}

// OpenLimiter gives a *rratelimiter.Limiter from within, or says what is wrong with it.
var OpenLimiter func(limiter any) (Limiter, error)

// SameSlot says whether a script may name all of these keys on a cluster.
var SameSlot func(keys ...string) error

// CheckPolicy says what is wrong with a policy of package limit by itself, as a limiter of it would, and costs
// less than one.
var CheckPolicy func(policy any) error

// Script is the text of parts of the scripts of Redisson's limiter.
var Script func(parts ...string) string

// RandomMember returns the member of a grant of 0 permits.
var RandomMember func() string
