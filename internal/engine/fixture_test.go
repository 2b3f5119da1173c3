package engine

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// fixture is a server in memory inside a synctest.Test, which answers for the fakes.
type fixture struct {
	*redistest.Fixture

	mu       sync.Mutex
	limiters map[string]*state // by key
	failure  string            // the error of all calls
	last     map[string]newest // by key
}

// newest is the newest exchanges that were answered, that denied a request, and that brought a prefetch.
type newest struct{ reply, denial, prefetch int64 }

// withServer runs a test with a server in memory and a clock of its own, and fails if a goroutine is
// left.
func withServer(t *testing.T, test func(t *testing.T, f *fixture)) {
	redistest.Run(t, func(t *testing.T, redis *redistest.Fixture) {
		f := &fixture{Fixture: redis, limiters: make(map[string]*state), last: make(map[string]newest)}
		f.Redis.Server().SetPreHook(f.answer)
		// Replies on their way arrive before the connection is closed: rueidis may spin until it
		// has, and no time passes.
		defer func() {
			f.Latency.Store(0)
			time.Sleep(time.Minute)
		}()
		test(t, f)
	})
}

func runWithServer(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Run(name, func(t *testing.T) { withServer(t, test) })
}

func runInBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func (f *fixture) engine() *Engine { return New(Settings{Redis: f.Conn}) }

// limiter opens a fake on an engine of its own.
func (f *fixture) limiter(limit int64, every time.Duration) *fake {
	return f.open(Settings{}, limit, every)
}

// open is limiter with settings.
func (f *fixture) open(s Settings, limit int64, every time.Duration) *fake {
	if s.Redis == nil {
		s.Redis = f.Conn
	}
	return open(New(s), "limiter", limit, every)
}

// fail makes all calls fail with an error of Redis, until it is called with none.
func (f *fixture) fail(failure string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = failure
}

const moving = "TRYAGAIN Multiple keys request during rehashing of slot"

// moveSlot makes all calls fail for 100 ms, as they do while their slot moves.
func (f *fixture) moveSlot() {
	f.fail(moving)
	time.AfterFunc(100*time.Millisecond, func() { f.fail("") })
}

// change changes what the server knows of a fake, as another program does.
func (f *fixture) change(l *fake, change func(s *state)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.limiters[l.ID]
	if s == nil {
		s = &state{limit: l.limit, every: l.every}
		f.limiters[l.ID] = s
	}
	change(s)
}

// free returns the permits that the server counts as free.
func (f *fixture) free(l *fake) (free int64) {
	f.change(l, func(s *state) { free = s.free(time.Now()) })
	return free
}

// idle reports whether an engine holds no state of calls.
func (g *Engine) idle() bool { return len(g.registry.all()) == 0 }

// idle requires that the engine of a limiter holds no state.
func (f *fixture) idle(l *fake) {
	f.Helper()
	assert.True(f, l.Engine.idle(), "state of a limiter is left")
}

// The ways to request permits, as the packages above offer them.

func (l *fake) Try(ctx context.Context, ask Ask) (result Result, err error) {
	_, err = l.Limiter.Try(ctx, ask, &result)
	return result, err
}

func (l *fake) TryAcquire(ctx context.Context, permits int64) (bool, error) {
	result, err := l.Try(ctx, Ask{Permits: permits})
	return result.Allowed, err
}

func (l *fake) Take(ctx context.Context, permits int64) (Result, error) {
	return l.Try(ctx, Ask{Permits: permits, Detail: true})
}

func (l *fake) TakeWithin(ctx context.Context, permits int64) (result Result, err error) {
	_, err = l.Wait(ctx, Ask{Permits: permits, Detail: true}, time.Now().Add(time.Minute), &result)
	return result, err
}

func (l *fake) TakeUpTo(ctx context.Context, permits int64) (Result, error) {
	return l.Try(ctx, Ask{Permits: 1, UpTo: permits, Detail: true})
}

// TryAcquireWithin has no deadline if the timeout is 0.
func (l *fake) TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	return l.Wait(ctx, Ask{Permits: permits}, deadline, new(Result))
}

func (l *fake) Acquire(ctx context.Context, permits int64) error {
	return redistest.Err(l.TryAcquireWithin(ctx, permits, 0))
}

func (l *fake) Release(ctx context.Context, permits int64) error {
	return redistest.Err(ChangeLimiters(ctx, l.Engine, l.DependsOn, l.back(permits, "")))
}

// way is a way to request permits.
type way struct {
	name   string
	waits  bool
	denied bool // rather than wait
	call   func(ctx context.Context, l *fake, permits int64) error
}

var ways = []way{
	{"TryAcquire", false, true, func(ctx context.Context, l *fake, n int64) error {
		return redistest.Err(l.TryAcquire(ctx, n))
	}},
	{"Take", false, true, func(ctx context.Context, l *fake, n int64) error { return redistest.Err(l.Take(ctx, n)) }},
	{"TryAcquireWithin", true, true, func(ctx context.Context, l *fake, n int64) error {
		return redistest.Err(l.TryAcquireWithin(ctx, n, time.Minute))
	}},
	{"Acquire", true, false, func(ctx context.Context, l *fake, n int64) error { return l.Acquire(ctx, n) }},
}

// size returns the number of elements of a map.
func size(m *sync.Map) (n int) {
	for range m.Range {
		n++
	}
	return n
}

// withContexts runs a test with a context with which callers wait for their call, and with one with
// which they can leave it. A call takes 10 ms.
func withContexts(t *testing.T, test func(ctx context.Context, f *fixture)) {
	for name, cancellable := range map[string]bool{"without an end": false, "cancellable": true} {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			f.Latency.Store(int64(10 * time.Millisecond))
			ctx := t.Context()
			if !cancellable {
				ctx = context.WithoutCancel(ctx)
			}
			test(ctx, f)
		})
	}
}
