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
		"a text and a number":         "*2\r\n$1\r\na\r\n:1\r\n",
		"granted in part, no permits": "*3\r\n:0\r\n$1\r\np\r\n*3\r\n$1\r\nm\r\n:5\r\n:1000\r\n",
	} {
		runWithRedis(t, name, func(b *fixture) {
			l := New(b.client, "name", FixedWindow{10, time.Hour, false})
			b.Redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
				if command == "EVALSHA" {
					peer.WriteRaw(reply)
				}
				return command == "EVALSHA"
			})
			ok, err := l.TryAcquire(b.Context(), 2)
			assert.Error(b, err)
			assert.False(b, ok)
			granted, _, err := l.TakeUpTo(b.Context(), 5)
			assert.Error(b, err)
			assert.Zero(b, granted)
			b.Redis.Server().SetPreHook(nil)
		})
	}
}
