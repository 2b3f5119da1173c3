package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// endless is a window whose script always wants another call.
type endless struct{ *fake }

func (l endless) Answer(*Batch, rueidis.RedisMessage) (again bool, err error) { return true, nil }

func openEndless(g *Engine, name string) *fake {
	l := open(g, name, 10, time.Hour)
	l.Protocol = endless{l}
	return l
}

// permitCalls are the ways to request a permit.
var permitCalls = map[string]func(ctx context.Context, l *fake) error{
	"Try":  func(ctx context.Context, l *fake) error { return redistest.Err(l.Try(ctx, Ask{Permits: 1})) },
	"Wait": func(ctx context.Context, l *fake) error { return redistest.Err(l.Wait(ctx, 1, time.Time{})) },
}

// TestCall_CallersGone_IsNotRepeated: the script has more to do, and no caller waits for the
// result.
func TestCall_CallersGone_IsNotRepeated(t *testing.T) {
	for name, ask := range permitCalls {
		for _, others := range []int{0, 2 * pipelined} { // so that calls leave in pipelines
			runWithServer(t, fmt.Sprint(name, " beside ", others), func(t *testing.T, f *fixture) {
				f.Latency.Store(int64(time.Millisecond))
				g := f.engine()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				for i := range others + 1 {
					go func() { ended <- ask(ctx, openEndless(g, fmt.Sprint(i))) }()
				}
				time.Sleep(100 * time.Millisecond)
				assert.Greater(t, f.Scripts.Load(), int64(20), "while they are there")
				cancel()
				for range others + 1 {
					assert.ErrorIs(t, <-ended, context.Canceled)
				}
				time.Sleep(10 * time.Millisecond) // what had been sent is answered
				before := f.Scripts.Load()
				time.Sleep(time.Second)
				assert.Equal(t, before, f.Scripts.Load(), "scripts after them")
				assert.True(t, g.idle())
			})
		}
	}
}

// TestCall_OneOfItsCallersGone_GoesOn: for the others.
func TestCall_OneOfItsCallersGone_GoesOn(t *testing.T) {
	for name, ask := range permitCalls {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			l := open(f.engine(), "limiter", 1000, time.Hour) // each page takes permits
			pages := &paged{fake: l, pages: 10}
			l.Protocol = pages
			f.Latency.Store(int64(10 * time.Millisecond))
			leaves, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			stays := make(chan error)
			go func() { stays <- ask(t.Context(), l) }()
			go func() { stays <- ask(t.Context(), l) }()
			assert.ErrorIs(t, ask(leaves, l), context.DeadlineExceeded)
			assert.NoError(t, <-stays)
			assert.NoError(t, <-stays)
		})
	}
}

// paged is a window whose script has its work done after some calls.
type paged struct {
	*fake
	pages int64
	done  atomic.Int64
}

func (l *paged) Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error) {
	if l.done.Add(1)%l.pages != 0 {
		return true, nil
	}
	return l.fake.Answer(b, reply)
}

type answersAll struct {
	rueidis.Client
	calls atomic.Int64
	reply rueidis.RedisResult
}

func (c *answersAll) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	c.calls.Add(1)
	return c.reply
}

func TestCall_ScriptNeverFinishes_EndsWithAnError(t *testing.T) {
	for name, ask := range permitCalls {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			conn := &answersAll{Client: f.Conn, reply: f.Conn.Do(t.Context(), f.Conn.B().Ping().Build())}
			err := ask(context.WithoutCancel(t.Context()), openEndless(New(Settings{Redis: conn}), "limiter"))
			assert.ErrorContains(t, err, "limiter: the script has not finished")
			assert.EqualValues(t, MaxPages, conn.calls.Load())
		})
	}
}

func TestCall_LeaseWithoutCallers_LastsAsLongAsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Batch{sent: sentBatch{at: time.Now()}, Lease: Lease{Span: time.Second}}
		ctx := b.context(t.Context())
		time.Sleep(time.Second - 1)
		assert.NoError(t, ctx.Err())
		time.Sleep(time.Nanosecond)
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
	})
}

// keeping is a connection that keeps the contexts of its calls, as a hook does that logs later.
type keeping struct {
	rueidis.Client
	kept []context.Context
}

func (c *keeping) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	c.kept = append(c.kept, ctx)
	return c.Client.Do(ctx, command)
}

// TestCall_Context_KeepsItsValuesAfterTheCall: the batch of the call is used again.
func TestCall_Context_KeepsItsValuesAfterTheCall(t *testing.T) {
	for name, ask := range permitCalls {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			type key struct{}
			conn := &keeping{Client: f.Conn}
			l := open(New(Settings{Redis: conn}), "limiter", 10, time.Hour)
			for caller := range 3 {
				require.NoError(t, ask(context.WithValue(context.Background(), key{}, caller), l))
			}
			time.Sleep(time.Second)
			for caller, ctx := range conn.kept {
				assert.NotPanics(t, func() {
					if name == "Try" { // the calls of a queue have no caller
						assert.Equal(t, caller, ctx.Value(key{}))
					} else {
						assert.Nil(t, ctx.Value(key{}))
					}
				})
			}
		})
	}
}
