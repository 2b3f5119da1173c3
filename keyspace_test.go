package rratelimiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDeleteTakesAllKeys(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		for _, typ := range []RateType{Overall, PerClient} {
			for _, remove := range []func(*Limiter) (bool, error){
				func(l *Limiter) (bool, error) { return l.Delete(ctx) },
				func(l *Limiter) (bool, error) { return l.Unlink(ctx) },
			} {
				l := b.limiter(Rate{Type: typ, Permits: 2, Interval: second})
				b.Take(l, 1)
				there, err := l.Exists(ctx)
				require.NoError(b, err)
				assert.True(b, there)
				there, err = l.Touch(ctx)
				require.NoError(b, err)
				assert.True(b, there)

				there, err = remove(l)
				require.NoError(b, err)
				assert.True(b, there)
				assert.Empty(b, b.Redis.Keys())
				there, err = remove(l)
				require.NoError(b, err)
				assert.False(b, there)
				there, err = l.Touch(ctx)
				require.NoError(b, err)
				assert.False(b, there)
				there, err = l.Exists(ctx)
				require.NoError(b, err)
				assert.False(b, there)
			}
		}
	})
}

func TestExpiryOfAllKeys(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx, l := b.Context(), b.limiter(Rate{Permits: 2, Interval: second})
		left := func(want time.Duration) {
			b.Helper()
			got, err := l.RemainTimeToLive(ctx)
			require.NoError(b, err)
			assert.Equal(b, want, got)
			at, err := l.ExpireTime(ctx)
			require.NoError(b, err)
			if want < 0 {
				assert.True(b, at.IsZero())
			} else {
				assert.Equal(b, time.Now().Add(want).UnixMilli(), at.UnixMilli())
			}
		}
		yes := func(changed bool, err error) {
			b.Helper()
			require.NoError(b, err)
			assert.True(b, changed)
		}
		no := func(changed bool, err error) {
			b.Helper()
			require.NoError(b, err)
			assert.False(b, changed)
		}
		b.Take(l, 1)
		left(NeverExpires)
		no(l.ClearExpire(ctx))
		no(l.Expire(ctx, time.Minute, IfSet))
		no(l.Expire(ctx, time.Minute, IfGreater))
		yes(l.Expire(ctx, time.Minute, IfNotSet))
		left(time.Minute)
		no(l.Expire(ctx, time.Minute, IfNotSet))
		no(l.Expire(ctx, time.Second, IfGreater))
		yes(l.Expire(ctx, time.Hour, IfSet, IfGreater))
		yes(l.ExpireAt(ctx, time.Now().Add(time.Minute+time.Millisecond), IfLess))
		left(time.Minute + time.Millisecond)
		for _, key := range b.Redis.Keys() {
			assert.Equal(b, time.Minute, b.Redis.TTL(key).Truncate(second), key)
		}
		yes(l.ClearExpire(ctx))
		left(NeverExpires)
		yes(l.Expire(ctx, time.Millisecond/2)) // is a millisecond, not at once
		left(time.Millisecond)
		yes(l.Expire(ctx, 0))
		assert.Empty(b, b.Redis.Keys())
		left(DoesNotExist)
	})
}

func TestRenameMovesTheState(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		c := New(b.Conn)
		rate := Rate{Permits: 10, Interval: time.Minute}
		from, to := c.Limiter("from"), c.Limiter("to")
		require.NoError(b, from.SetRate(ctx, rate))
		require.NoError(b, to.SetRate(ctx, Rate{Type: PerClient, Permits: 3, Interval: time.Minute}))
		b.Take(from, 4)
		b.Take(to, 3)

		moved, err := from.RenameNX(ctx, "to")
		require.NoError(b, err)
		assert.False(b, moved)
		b.Free(from, 6)

		require.NoError(b, from.Rename(ctx, "to"))
		assert.Equal(b, []string{"to", "{to}:permits", "{to}:value"}, b.Redis.Keys(), "nothing of the old ones stays")
		b.Free(to, 6)
		assert.ErrorIs(b, from.Rename(ctx, "to"), ErrNotInitialized)

		moved, err = to.RenameNX(ctx, "from")
		require.NoError(b, err)
		assert.True(b, moved)
		b.Free(from, 6)
		require.NoError(b, from.Rename(ctx, "from"))
		b.Free(from, 6)
	})
}

func TestCopyHasAStateOfItsOwn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		c := New(b.Conn)
		from, to := c.Limiter("from"), c.Limiter("to")
		require.NoError(b, from.SetRate(ctx, Rate{Permits: 10, Interval: time.Minute}))
		b.Take(from, 4)
		copied, err := from.Copy(ctx, "to")
		require.NoError(b, err)
		assert.True(b, copied)
		b.Take(to, 6)
		b.Free(from, 6)
		copied, err = from.Copy(ctx, "to")
		require.NoError(b, err)
		assert.False(b, copied)
		b.Free(to, 0)
		copied, err = from.Copy(ctx, "to", Replace())
		require.NoError(b, err)
		assert.True(b, copied)
		b.Free(to, 6)
	})
}

func TestSizeCountsAllKeys(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1000, Interval: time.Minute})
		empty, err := l.SizeInMemory(b.Context())
		require.NoError(b, err)
		assert.Positive(b, empty)
		for range 100 {
			b.Take(l, 1)
		}
		full, err := l.SizeInMemory(b.Context())
		require.NoError(b, err)
		assert.Greater(b, full, empty+1000)
	})
}
