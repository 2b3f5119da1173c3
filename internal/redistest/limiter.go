package redistest

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/memredis"
)

// Limiter is a limiter that answers at once.
type Limiter interface {
	TryAcquire(ctx context.Context, permits int64) (bool, error)
}

// RequireGranted requires that TryAcquire grants permits.
func (f *Fixture) RequireGranted(l Limiter, permits int64) {
	f.Helper()
	ok, err := l.TryAcquire(f.Context(), permits)
	require.NoError(f, err)
	require.True(f, ok, "%d permits should be granted", permits)
}

// CountGranted takes a permit so many times, with a pause before each, and returns how many are granted.
func (f *Fixture) CountGranted(l Limiter, times int, pause time.Duration) (granted int) {
	f.Helper()
	for range times {
		time.Sleep(pause)
		ok, err := l.TryAcquire(f.Context(), 1)
		require.NoError(f, err)
		if ok {
			granted++
		}
	}
	return granted
}

// RequireDenied requires that TryAcquire denies permits.
func (f *Fixture) RequireDenied(l Limiter, permits int64) {
	f.Helper()
	ok, err := l.TryAcquire(f.Context(), permits)
	require.NoError(f, err)
	require.False(f, ok, "%d permits should be denied", permits)
}

// RequireAvailable requires that a limiter reports so many available permits.
func (f *Fixture) RequireAvailable(l interface {
	AvailablePermits(ctx context.Context) (int64, error)
}, want int64) {
	f.Helper()
	require.Equal(f, want, Available(f, l), "available permits")
}

// RequireTrue requires that a call returned true, without an error.
func (f *Fixture) RequireTrue(ok bool, err error) {
	f.Helper()
	require.NoError(f, err)
	require.True(f, ok)
}

// RequireFalse requires that a call returned false, without an error.
func (f *Fixture) RequireFalse(ok bool, err error) {
	f.Helper()
	require.NoError(f, err)
	require.False(f, ok)
}

// RequireNoError requires that a call returned no error.
func (f *Fixture) RequireNoError(_ any, err error) {
	f.Helper()
	require.NoError(f, err)
}

// Timeout returns a context that ends after d, or with the test.
func Timeout(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Err returns the error of a call.
func Err(_ any, err error) error { return err }

// Result returns the result of a call for permits, which must not fail.
func Result[R any](t testing.TB, call func(ctx context.Context, permits int64) (R, error), permits int64) R {
	t.Helper()
	result, err := call(t.Context(), permits)
	require.NoError(t, err)
	return result
}

// Available returns the available permits of a limiter.
func Available(t testing.TB, l interface {
	AvailablePermits(ctx context.Context) (int64, error)
}) int64 {
	t.Helper()
	free, err := l.AvailablePermits(t.Context())
	require.NoError(t, err)
	return free
}

// Peek returns what a limiter reports without a request.
func Peek[D any](t testing.TB, l interface {
	Peek(ctx context.Context) ([]D, error)
}) []D {
	t.Helper()
	all, err := l.Peek(t.Context())
	require.NoError(t, err)
	return all
}

// Stored returns the integer that Redis stores under a key.
func (f *Fixture) Stored(key string) int64 {
	f.Helper()
	text, err := f.Redis.Get(key)
	require.NoError(f, err)
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(f, err)
	return n
}

// QuickConn connects another program, which Latency does not slow down.
func (f *Fixture) QuickConn() rueidis.Client {
	conn, err := memredis.Connect(f.Redis)
	require.NoError(f, err)
	f.Cleanup(conn.Close)
	return conn
}

// Reply makes answer reply to a command, also within a script, and counts the replies. An empty key
// stands for every key. The answer of the last call of Reply replaces those before it.
func (f *Fixture) Reply(command, key string, answer func(peer *server.Peer, args []string)) (times *int) {
	times = new(int)
	f.Redis.Server().SetPreHook(func(peer *server.Peer, name string, args ...string) bool {
		f.count(name)
		if name != command || len(args) == 0 || key != "" && args[0] != key {
			return false
		}
		*times++
		answer(peer, args)
		return true
	})
	return times
}

// ScriptCall returns the keys and the arguments of a command that calls a script.
func ScriptCall(command string, words []string) (keys, args []string) {
	if !strings.EqualFold(command, "EVALSHA") {
		return nil, nil
	}
	const numkeys = 1
	n, err := strconv.Atoi(words[numkeys])
	if err != nil {
		panic(err)
	}
	words = words[numkeys+1:]
	return words[:n], words[n:]
}

// Crowd starts callers one after another, so that their order of arrival is known, and returns
// their answers.
func Crowd[A any](callers int, call func(caller int) (A, error)) (answers []A, errs []error) {
	answers, errs = make([]A, callers), make([]error, callers)
	var done sync.WaitGroup
	for i := range callers {
		done.Go(func() { answers[i], errs[i] = call(i) })
		synctest.Wait()
	}
	done.Wait()
	return answers, errs
}
