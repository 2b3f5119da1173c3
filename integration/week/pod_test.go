package week

import (
	"context"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// pod is a process with a Client and a connection of its own.
type pod struct {
	calls
	week    *week
	conn    rueidis.Client
	root    context.Context // of all its callers
	end     context.CancelFunc
	crashed bool // its calls may fail
	callers sync.WaitGroup
}

// start starts a pod.
func (w *week) start() *pod {
	p := &pod{week: w, conn: w.QuickConn()}
	p.root, p.end = context.WithCancel(w.Context())
	p.calls = w.entry.open(rratelimiter.New(p.conn, w.entry.client...), w.rate)
	w.pods = append(w.pods, p)
	return p
}

const (
	waiting  = 6                      // callers of a pod
	threads  = 12                     // of Java
	tryEvery = 200 * time.Millisecond // by one more caller of a pod
)

// work lets the callers of a pod work until a context ends.
func (p *pod) work(ctx context.Context) {
	for range waiting {
		p.callers.Go(func() {
			for ctx.Err() == nil {
				p.call(ctx, p.wait, ofGo)
				time.Sleep(think())
			}
		})
	}
	p.callers.Go(func() {
		for ctx.Err() == nil {
			p.call(ctx, p.try, neither)
			time.Sleep(tryEvery)
		}
	})
}

// call makes a call, and logs a grant. It fails only if its context has ended.
func (p *pod) call(ctx context.Context, call func(context.Context) (bool, error), by side) bool {
	granted, err := call(ctx)
	if granted {
		p.week.log.grant(by)
	}
	if err != nil && ctx.Err() == nil && !p.crashed {
		assert.NoError(p.week, err)
	}
	return granted
}

// crowd has many callers of the pods try at once. At least so many get a permit, and never all of them.
func (w *week) crowd(when string, least int64) {
	w.Helper()
	const crowd = 200 // more than any entry point grants
	var granted atomic.Int64
	var done sync.WaitGroup
	for i := range crowd {
		p := w.pods[i%len(w.pods)]
		done.Go(func() {
			if p.call(p.root, p.try, neither) {
				granted.Add(1)
			}
		})
	}
	done.Wait()
	require.GreaterOrEqual(w, granted.Load(), least, "grants of a crowd %s", when)
	require.LessOrEqual(w, granted.Load(), w.entry.most*w.rate, "grants of a crowd %s", when)
}

// replace ends all pods while callers wait in them, and starts as many new ones. The first caller of
// a new one gets its permit soon. If the first pod crashes, it returns nothing.
func (w *week) replace(rate int64, crash bool) {
	w.Helper()
	const leaving = 100
	old := w.pods
	for _, p := range old {
		for range leaving {
			p.callers.Go(func() { p.call(p.root, p.wait, neither) })
		}
	}
	time.Sleep(interval / 2)
	soon := interval * time.Duration(2*max(w.rate, rate)/rate-1) // a burst of the old rate, and a second, stay taken
	if crash {
		soon += ahead
		old[0].crashed = true
		old[0].conn.Close()
	}
	for _, p := range old {
		p.end()
	}
	for _, p := range old {
		p.callers.Wait()
	}
	synctest.Wait() // what they return has arrived
	w.pods = nil
	w.setRate(rate)
	for range old {
		p := w.start()
		began := time.Now()
		require.True(w, p.call(p.root, p.wait, neither))
		require.LessOrEqual(w, time.Since(began), soon+jitter, "until the next process has a permit, crash: %t", crash)
	}
	time.Sleep(2 * interval)
}

// What the documentation promises.
const (
	ahead  = time.Second            // for which waiting callers of a process reserve
	jitter = 103 * time.Millisecond // how much later than at the exact time waiters of the shared limiter ask
)

// setRate has a release change the rate. Permits that were granted stay used.
func (w *week) setRate(rate int64) {
	if w.rate == rate {
		return
	}
	w.rate = rate
	w.log.rates = append(w.log.rates, rateChange{time.Now().UnixMilli(), rate})
	if !w.entry.java {
		return
	}
	err := rratelimiter.New(w.Conn).Limiter(shared).SetRate(w.Context(), rateOf(rate), rratelimiter.KeepState())
	require.NoError(w, err)
}

// lose restarts Redis without data.
func (w *week) lose() {
	synctest.Wait() // no call is on its way
	w.Redis.FlushAll()
	require.NoError(w, w.Conn.Do(w.Context(), w.Conn.B().ScriptFlush().Build()).Error())
	w.log.newLife()
}
