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
func (p acquiring) lease(b *engine.Batch, o *state) {
	answer, marks := o.granted(0), o.marks
	b.Lease.Granted, b.Lease.Lasts, b.Lease.Limit, b.Lease.Free, b.Lease.Reset = o.leased, o.lasts, answer.Limit,
		answer.Remaining, answer.ResetAfter
	b.Lease.Parts = o.each(0, 0, true)
	b.Lease.Return = func(ctx context.Context, permits int64) error {
		_, err := engine.Refund(ctx, p.client.Engine, p.subjects, func(ctx context.Context) (rueidis.RedisMessage, error) {
			return p.eval(ctx, release, p.members, []string{strconv.FormatInt(permits, 10)}, marks...)
		})
		return err
	}
}
