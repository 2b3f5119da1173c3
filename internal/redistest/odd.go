package redistest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/memredis"
)

// Odd is a server that answers every command with one message. After a number of answers it returns
// an error, so that no caller repeats its call for ever.
type Odd struct {
	Client  rueidis.Client
	Message atomic.Pointer[string]
	Left    atomic.Int32 // answers until the error
}

// NewOdd starts a server and connects to it.
func NewOdd(t testing.TB) *Odd {
	redis := miniredis.NewMiniRedis()
	client, err := memredis.Connect(redis)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	odd := &Odd{Client: client}
	redis.Server().SetPreHook(func(peer *server.Peer, _ string, _ ...string) bool {
		if odd.Left.Add(-1) >= 0 {
			peer.WriteRaw(*odd.Message.Load())
		} else {
			peer.WriteError("ERR enough")
		}
		return true
	})
	return odd
}

// OddMessage makes one well-formed RESP3 message out of any bytes: a reply that no script of this
// module has.
func OddMessage(source []byte) string { return (&messages{source}).next(0) }

type messages struct{ source []byte }

func (r *messages) octet() byte {
	if len(r.source) == 0 {
		return 0
	}
	b := r.source[0]
	r.source = r.source[1:]
	return b
}

func (r *messages) text() string {
	n := min(int(r.octet()%32), len(r.source))
	text := string(r.source[:n])
	r.source = r.source[n:]
	return text
}

func (r *messages) number() int64 {
	switch b := r.octet(); {
	case b < 200:
		return int64(b) - 4
	case b < 220:
		return 1<<62 + int64(b)
	case b < 240:
		return -1<<63 + int64(b)
	default:
		return int64(r.octet())<<(b&31) - 1
	}
}

func (r *messages) next(depth int) string {
	switch choice := r.octet() % 16; {
	case choice < 5:
		return fmt.Sprintf(":%d\r\n", r.number())
	case choice < 8:
		text := r.text()
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	case choice == 8:
		return "+" + strings.NewReplacer("\r", "", "\n", "").Replace(r.text()) + "\r\n"
	case choice == 9:
		return "-" + strings.NewReplacer("\r", "", "\n", "").Replace(r.text()) + "\r\n"
	case choice == 10:
		return "_\r\n"
	case choice == 11:
		return fmt.Sprintf(",%d.5\r\n", r.number())
	case choice == 12:
		return "#t\r\n"
	case depth > 2:
		return "$-1\r\n"
	}
	n := int(r.octet() % 12)
	var all strings.Builder
	fmt.Fprintf(&all, "*%d\r\n", n)
	for range n {
		all.WriteString(r.next(depth + 1))
	}
	return all.String()
}
