package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestChange_LeaseInTransit_WaitsForIt: the change of another caller has revoked the lease, it has
// expired, or its call is in flight. Otherwise a Release would count its unused permits as used.
func TestChange_LeaseInTransit_WaitsForIt(t *testing.T) {
	for name, depart := range map[string]func(l *Limiter, e *entry, s activeLease){
		"another change": func(l *Limiter, e *entry, s activeLease) {
			e.leases.leases = append(e.leases.leases, s)
			go change(context.Background(), l.Engine, l.ID)
		},
		"it has expired": func(l *Limiter, e *entry, s activeLease) {
			s.sent = time.Now().Add(-s.Lasts)
			e.leases.leases = append(e.leases.leases, s)
			go l.expireLeases(e, e.leases)
		},
		"it arrives": func(_ *Limiter, e *entry, s activeLease) {
			b, h := &Batch{sent: sentBatch{at: time.Now()}}, e.leases
			h.demanded = 100
			changes := h.plan(b)
			require.NotNil(t, h.fetch)
			time.AfterFunc(20*time.Millisecond, func() {
				b.Lease = s.Lease
				b.Lease.Granted, b.Lease.Span = s.unused, s.Lasts
				e.mu.Lock()
				defer e.mu.Unlock()
				h.store(b, nil, changes).runLater()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, e := leased()
				h := e.leases
				defer h.timer.Stop()
				returned := false
				depart(l, e, activeLease{Lease{Lasts: time.Hour, Return: func(context.Context, int64) error {
					time.Sleep(50 * time.Millisecond)
					returned = true
					return nil
				}}, 5, time.Now()})
				time.Sleep(10 * time.Millisecond)
				_, err := Change(t.Context(), l.Engine, l.DependsOn, func(context.Context) (any, error) {
					assert.True(t, returned)
					e.mu.Lock()
					defer e.mu.Unlock()
					b := new(Batch)
					h.demanded = 100
					assert.Zero(t, h.plan(b))
					assert.Zero(t, b.Lease.Span, "it would be a lease from before the change")
					return nil, nil
				})
				require.NoError(t, err)
				synctest.Wait() // the other change, too
				h.plan(new(Batch))
				assert.NotNil(t, h.fetch, "leases go on after it")
			})
		})
	}
}

// TestChange_LeaseCannotBeReturned_GoesOn: its slot moves for long.
func TestChange_LeaseCannotBeReturned_GoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := named(New(Settings{Lease: time.Hour}), "a")
		h := &leaseSet{keys: l.DependsOn, transfers: &l.Engine.transfers}
		h.release(&activeLease{unused: 5, Lease: Lease{Return: func(context.Context, int64) error {
			time.Sleep(time.Minute)
			return nil
		}}}, nil).runLater()
		begin := time.Now()
		change(t.Context(), l.Engine, "b")
		assert.Zero(t, time.Since(begin), "it is no lease of that limiter")
		change(t.Context(), l.Engine, "a")
		assert.Equal(t, longTransfer, time.Since(begin))
		time.Sleep(time.Minute)
	})
}

// TestChange_LeaseArrivesMeanwhile_IsReturned: it is from before the change.
func TestChange_LeaseArrivesMeanwhile_IsReturned(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Lease: time.Second}, 10, time.Hour)
		f.RequireGranted(l, 1)
		returned := int64(0)
		returns := func(_ context.Context, permits int64) error {
			returned = permits
			return nil
		}
		_, err := Change(t.Context(), l.Engine, l.DependsOn, func(context.Context) (any, error) {
			e := l.Engine.registry.lockExisting(l.ID)
			e.leases.leases = []activeLease{{Lease{Lasts: time.Second, Return: returns}, 5, time.Now()}}
			e.mu.Unlock()
			return nil, nil
		})
		require.NoError(t, err)
		assert.EqualValues(t, 5, returned)
		assert.False(t, l.fromLease(Ask{Permits: 1}, new(Result)))
	})
}
