// Package inside lets the packages of this module call unexported parts of one another. A type that has such
// parts embeds Sealed, under an alias that is not exported. So the documentation does not have it, and no type of
// another module implements Seal.
package inside

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Seal is what has unexported parts. An interface that embeds it accepts only types of this module, and those that
// embed one of them, which count as that one.
type Seal interface{ sealed() any }

// Sealed implements Seal. The zero Sealed has no parts.
type Sealed struct{ parts any }

func (s Sealed) sealed() any { return s.parts }

// New returns a Sealed with a Handle, a Fallback or a Client.
func New(parts any) Sealed { return Sealed{parts} }

// Of returns the parts of a value if they are of type T. It returns false for nil, and for the zero value of a type.
func Of[T any](of Seal) (parts T, ok bool) {
	if v := reflect.ValueOf(of); of == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return parts, false
	}
	parts, ok = of.sealed().(T)
	return parts, ok
}

// HandleOf returns the Handle of a limiter, which may be its own. It returns false as Of does.
func HandleOf(limiter Seal) (Handle, bool) {
	if own, ok := limiter.(Handle); ok {
		return own, true
	}
	return Of[Handle](limiter)
}

// PermitsOf returns the permits of a member of a permits set, -1 if it is too short. It reports whether
// the member has the format of a grant, as internal/include/member.lua describes it. The last four
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

// Handle calls a *rratelimiter.Limiter or a *limit.Limiter.
type Handle interface {
	// Try takes permits that are free now, as the methods Take do. With Receipt, the Ask needs Detail.
	Try(ctx context.Context, ask engine.Ask, result *engine.Result) error

	// Wait waits for permits, as Acquire does, or with a deadline as TryAcquireWithin.
	Wait(ctx context.Context, ask engine.Ask, deadline time.Time, result *engine.Result) (bool, error)

	// Node returns the engine and the first key, whose node gets the calls. It returns false for an
	// invalid limiter.
	Node() (g *engine.Engine, key string, ok bool)

	// Members returns the limiter of each policy in order, none for an invalid limiter. The policies of
	// a join have those that are joined. A *rratelimiter.Limiter is its only member.
	Members() []Member

	// ChargeMore returns the call that charges permits beyond those of a request, nil if the limiter has none.
	ChargeMore() receipt.Charge
}

// Member is the limiter of a policy. If it is of Redisson's layout and has an initial rate, that grants
// Permits in each Interval.
type Member struct {
	Name     string
	Policy   any // a limit.Policy; nil for Redisson's layout
	Permits  int64
	Interval time.Duration
}

// MemberOf returns the member of Redisson's layout with a name and the call that sets its initial rate.
func MemberOf(name string, initial []redisx.Call) Member {
	m := Member{Name: name}
	if len(initial) > 0 {
		args := initial[0].Args // the permits and the milliseconds come first
		m.Permits, _ = strconv.ParseInt(args[0], 10, 64)
		millis, _ := strconv.ParseInt(args[1], 10, 64)
		m.Interval = time.Duration(millis) * time.Millisecond
	}
	return m
}

// Redisson is the Handle of a *rratelimiter.Limiter.
type Redisson interface {
	Handle

	// Open returns the unexported parts of the limiter, or its error.
	Open() (Limiter, error)
}

// Forever is a wait that ends only with its context.
const Forever time.Duration = -1

// Fallback calls a *fallback.Limiter for a limit.Taken.
type Fallback interface {
	// Take takes permits, and waits for them at most so long, or Forever. The receipt settles them.
	Take(ctx context.Context, permits int64, wait time.Duration) (engine.Decision, receipt.Receipt, error)

	// Wrapped returns the limiter that Redis decides by, a limit.Joinable.
	Wrapped() any
}

// Client has the unexported parts of a *rratelimiter.Client.
type Client struct {
	Engine     *engine.Engine
	WaitJitter time.Duration // of rratelimiter.WithWaitJitter
	Maps       bool          // a name mapper is set

	// Mapped returns a limiter's name as keys contain it, or an error if it is invalid.
	Mapped func(name string) (string, error)

	Err error // of an option

	// SameSlot returns rratelimiter.ErrCrossSlot if the keys, and those that begin with their hash tag, do
	// not share a slot.
	SameSlot func(keys ...string) error
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

	// RecountIfDue corrects drift in the background, if a count of the limiter's permits is due.
	RecountIfDue func()

	// Recount counts the permits of the limiter at once, which corrects drift.
	Recount func(ctx context.Context) error
}

// Reply is what a script replied about a limiter. Times are milliseconds.
type Reply struct {
	Rate, Interval, Free, Reset int64
	KeepAlive                   int64   // 0 for none
	Returns                     []int64 // pairs of a time and the permits that return then
}

// RateFields are the names of the fields of the configuration hash of a limiter in Redisson's layout, in the order of
// the scripts. Releases before 3.38 do not write the last one.
var RateFields = []string{"rate", "interval", "type", "keepAliveTime"}

// ReadRateField returns the number of the field at an index of RateFields. It returns false for a text that the scripts
// refuse. A number above the largest int64 becomes that.
func ReadRateField(field int, text string) (number int64, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	const most = 1 << 53
	number, err := strconv.ParseInt(text, 10, 64)
	ok = err == nil || errors.Is(err, strconv.ErrRange)
	switch RateFields[field] {
	case "rate":
		ok = ok && (number < most || text == strconv.FormatInt(most, 10))
	case "type":
		ok = text == "0" || text == "1"
	case "keepAliveTime":
		ok = ok && len(text) < 16 && (text == "0" || text[0] != '0')
	}
	return number, ok
}
