package limit

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
)

// TestTryAcquire_ReplyOfAnotherShape_IsAnError, and no grant.
func TestTryAcquire_ReplyOfAnotherShape_IsAnError(t *testing.T) {
	for name, reply := range map[string]string{
		"texts of 3 policies":         "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
		"a list of one text":          "*1\r\n$1\r\na\r\n",
		"a text and a number":         "*2\r\n$1\r\na\r\n:1\r\n",
		"granted in part, no permits": "*3\r\n:0\r\n$1\r\np\r\n*3\r\n$1\r\nm\r\n:5\r\n:1000\r\n",
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.client, "name", FixedWindow{10, time.Hour, false})
			f.Redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
				if command == "EVALSHA" {
					peer.WriteRaw(reply)
				}
				return command == "EVALSHA"
			})
			ok, err := l.TryAcquire(t.Context(), 2)
			assert.Error(t, err)
			assert.False(t, ok)
			granted, _, err := l.TakeUpTo(t.Context(), 5)
			assert.Error(t, err)
			assert.Zero(t, granted)
			f.Redis.Server().SetPreHook(nil)
		})
	}
}
