package oracle

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/integration/tools/monitor"
)

// CaptureScript runs do and returns the last script that a client ran meanwhile on the server at
// redisAddr, with its keys and arguments. So a test gets the script that a release of Redisson
// sends. It is Redisson's and has no place in this repository.
//
// The server's script cache is emptied first, so that a client sends the text of its script again.
// No other client may use the server meanwhile. On a cluster redisAddr must be the master of the
// keys.
func CaptureScript(ctx context.Context, redisAddr string, do func()) (script string, keys, args []string, err error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redisAddr}, ForceSingleClient: true,
		DisableCache: true})
	if err != nil {
		return "", nil, nil, err
	}
	defer client.Close()
	if err := client.Do(ctx, client.B().ScriptFlush().Build()).Error(); err != nil {
		return "", nil, nil, err
	}
	c := capture{texts: make(map[string]string)}
	watch, err := monitor.Open(redisAddr, c.see)
	if err != nil {
		return "", nil, nil, err
	}
	defer watch.Close()
	do()
	if err := watch.Sync(ctx); err != nil {
		return "", nil, nil, err
	}
	return c.split()
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

func (c *capture) split() (script string, keys, args []string, err error) {
	if c.last == nil {
		return "", nil, nil, errors.New("no script was run")
	}
	if len(c.last) == 1 {
		return "", nil, nil, errors.New("a script without a number of keys")
	}
	n, err := strconv.Atoi(c.last[1])
	if err != nil || n < 0 || n > len(c.last)-2 {
		return "", nil, nil, fmt.Errorf("a script with %q keys of %d arguments", c.last[1], len(c.last)-2)
	}
	return c.last[0], c.last[2 : 2+n], c.last[2+n:], nil
}

// scriptHash is the name that Redis gives a script.
func scriptHash(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}
