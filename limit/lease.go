package limit

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// canLease reports whether permits of all members can be leased.
func canLease(members []member) bool {
	return !slices.ContainsFunc(members, func(m member) bool { return sections[m.policy.kind()]["lease"] == "" })
}

// lease describes a lease that a call has brought.
func (p *protocol) lease(b *engine.Batch, o *state) {
	l, answer, marks := (*Limiter)(p), o.granted(0), o.marks
	b.Lease.Granted, b.Lease.Lasts, b.Lease.Limit, b.Lease.Free, b.Lease.Reset = o.leased, o.lasts, answer.Limit, answer.Remaining, answer.ResetAfter
	b.Lease.Parts = o.each(0, 0, true)
	b.Lease.Return = func(ctx context.Context, permits int64) error {
		_, err := engine.Returning(ctx, l.client.Engine, l.calls.Subjects, func(ctx context.Context) (rueidis.RedisMessage, error) {
			return l.eval(ctx, release, l.members, []string{strconv.FormatInt(permits, 10)}, marks...)
		})
		return err
	}
}
