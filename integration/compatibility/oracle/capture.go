package oracle

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/monitor"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// CaptureScript runs do and returns the last script that a client ran meanwhile on the server at
// redisAddr, with its keys and arguments. So a test gets the script that a release of Redisson
// sends. It is Redisson's and has no place in this repository.
//
// The server's script cache is emptied first, so that a client sends the text of its script again.
// No other client may use the server meanwhile. On a cluster redisAddr must be the master of the
// keys.
func CaptureScript(t testing.TB, redisAddr string, do func()) (script string, keys, args []string) {
	t.Helper()
	client := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{redisAddr}, ForceSingleClient: true,
		DisableCache: true})
	require.NoError(t, client.Do(context.Background(), client.B().ScriptFlush().Build()).Error())
	c := capture{texts: make(map[string]string)}
	watch := monitor.Watch(t, redisAddr, c.see)
	do()
	watch.CatchUp(t)
	watch.Close()
	require.Greater(t, len(c.last), 1, "no script was run")
	n, err := strconv.Atoi(c.last[1])
	require.NoError(t, err)
	return c.last[0], c.last[2 : 2+n], c.last[2+n:]
}

// capture has the last script that a monitor saw.
type capture struct {
	texts map[string]string // by hash
	last  []string          // text, number of keys, keys, arguments
}

func (c *capture) see(command monitor.Command) {
	words := command.Words()
	if command.Script || len(words) < 2 {
		return
	}
	switch strings.ToUpper(words[0]) {
	case "SCRIPT":
		if len(words) == 3 && strings.EqualFold(words[1], "LOAD") {
			c.texts[scriptHash(words[2])] = words[2]
		}
	case "EVAL", "EVAL_RO":
		c.texts[scriptHash(words[1])] = words[1]
		c.last = words[1:]
	case "EVALSHA", "EVALSHA_RO":
		// The server rejects an unknown hash, and the client sends the text.
		if text, ok := c.texts[strings.ToLower(words[1])]; ok {
			c.last = append([]string{text}, words[2:]...)
		}
	}
}

// scriptHash is the name that Redis gives a script.
func scriptHash(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}
