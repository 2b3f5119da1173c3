package redisx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestOnce_Script_RunsOnce: but a call that asks for another one, or fails, does not count.
func TestOnce_Script_RunsOnce(t *testing.T) {
	for _, reply := range []string{"1", "{0, 'done'}"} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			script := NewScript(`local n = redis.call('INCR', KEYS[1])
if n < 3 then
  return {tonumber(ARGV[1]), 'cursor'}
end
return #KEYS == 1 and ` + reply)
			call := func(id, first string) error {
				once := Call{script, []string{"{x}:key"}, []string{first}}.ForOnce(Once(t.Context(), id))
				message, err := once.Exec(t.Context(), f.Conn, nil)
				require.NoError(t, err)
				return RanBefore(message)
			}
			require.NoError(t, call("a", "1"))
			require.NoError(t, call("a", "3"))
			for range 3 {
				require.NoError(t, call("b", "1"))
				require.NoError(t, call("a", "1"))
				for range 2 {
					require.ErrorIs(t, call("a", "1"), ErrRanBefore)
					require.ErrorIs(t, call("b", "1"), ErrRanBefore)
				}
				time.Sleep(OnceFor - time.Millisecond)
				require.ErrorIs(t, call("a", "1"), ErrRanBefore)
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// TestOnce_Key_IsInTheSlot: and it differs by script and limiter.
func TestOnce_Key_IsInTheSlot(t *testing.T) {
	ctx := Once(t.Context(), "id")
	seen := make(map[string]bool)
	for _, script := range []*Script{NewScript("return 1"), NewScript("return 2")} {
		for _, key := range []string{"plain", "{x}:window:1000", "{x}:shared", "a{b}c::log:5", "{x}{y}:bucket:1"} {
			keys := Call{Script: script, Keys: []string{key, "other"}}.ForOnce(ctx).Keys
			require.Len(t, keys, 3)
			assert.Equal(t, Slot(key), Slot(keys[2]), key)
			assert.False(t, seen[keys[2]], keys[2])
			seen[keys[2]] = true
		}
	}
	same := Call{Script: NewScript("return 1"), Keys: []string{"key"}}
	assert.Equal(t, same, same.ForOnce(t.Context()))
}
