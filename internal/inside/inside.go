// Package inside gives other packages access to unexported parts of package rratelimiter.
package inside

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Open returns the unexported parts of a *rratelimiter.Client, or its error. Package rratelimiter sets
// all variables of this package.
var Open func(client any) (Client, error)

// OpenLimiter returns the unexported parts of a *rratelimiter.Limiter, or its error.
var OpenLimiter func(limiter any) (Limiter, error)

// NodeOf returns the engine and the first key of a *limit.Limiter or *rratelimiter.Limiter, whose node
// gets its calls. It returns false for another type and for an invalid limiter. Package limit sets it.
var NodeOf func(limiter any) (g *engine.Engine, key string, ok bool)

// PermitsOf returns the permits of a member of a permits set, -1 if it is too short. It reports whether
// the member has the format of a grant, as member.go of package rratelimiter describes it. The last four
// bytes of any member count.
func PermitsOf(member string) (permits int64, known bool) {
	head := len(member) - 4
	if head < 0 {
		return -1, false
	}
	return int64(binary.LittleEndian.Uint32([]byte(member[head:]))), head > 0 && int(member[0]) == head-1
}

// MostCounted is the number of grants up to which Recount of a [Limiter] counts a set.
const MostCounted = 8192

// Client has the unexported parts of a *rratelimiter.Client.
type Client struct {
	Engine     *engine.Engine
	WaitJitter time.Duration // of rratelimiter.WithWaitJitter
	Maps       bool          // a name mapper is set
	Names
}

// Names maps and checks the names of limiters.
type Names interface {
	// Mapped returns a limiter's name as keys contain it, or an error if it is invalid.
	Mapped(name string) (string, error)

	// SameSlot returns rratelimiter.ErrCrossSlot if the keys, and those that begin with their hash tag, do
	// not share a slot.
	SameSlot(keys ...string) error
}

// Limiter has the unexported parts of a *rratelimiter.Limiter.
type Limiter struct {
	Client Client
	Keys   []string // in the order of its scripts; the first is the configuration's
	Types  []string // the type of each key, as TYPE names it

	// Member returns the member of a grant of 0 permits.
	Member func() string

	// Initial is the call that sets the initial rate, if there is one.
	Initial []redisx.Call

	// Forecast returns the forecast of a reply.
	Forecast func(Reply) engine.Forecast

	// Release releases permits, the oldest first. Refund refunds those of the grant with a member, of
	// granted permits and at a time in Unix milliseconds.
	Release func(ctx context.Context, permits int64) error
	Refund  func(ctx context.Context, permits int64, member string, granted int64, at string) error

	// CountDrift corrects drift in the background, if a count of the limiter's permits is due.
	CountDrift func()

	// Recount counts the permits of the limiter at once, which corrects drift.
	Recount func(ctx context.Context) error
}

// Reply is what a script replied about a limiter. Times are milliseconds.
type Reply struct {
	Rate, Interval, Free, Reset int64
	KeepAlive                   int64   // 0 for none
	Returns                     []int64 // pairs of a time and the permits that return then
}
