package oracle

import (
	"bufio"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	const end = "the end of the capture"
	conn, err := net.Dial("tcp", redisAddr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "SCRIPT FLUSH\r\nMONITOR\r\n")
	require.NoError(t, err)
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	for range 2 {
		require.True(t, lines.Scan(), "no reply: %v", lines.Err())
		require.Equal(t, "+OK", lines.Text())
	}
	do()
	other, err := net.Dial("tcp", redisAddr)
	require.NoError(t, err)
	defer other.Close()
	_, err = fmt.Fprintf(other, "ECHO %q\r\n", end)
	require.NoError(t, err)

	texts := make(map[string]string) // by hash
	var last []string                // text, number of keys, keys, arguments
	for lines.Scan() && !strings.HasSuffix(lines.Text(), strconv.Quote(end)) {
		words := wordsOf(lines.Text())
		if len(words) < 3 {
			continue
		}
		switch strings.ToUpper(words[0]) {
		case "SCRIPT":
			texts[scriptHash(words[2])] = words[2]
		case "EVAL":
			texts[scriptHash(words[1])] = words[1]
			last = words[1:]
		case "EVALSHA":
			// The server rejects an unknown hash, and the client sends the text.
			if text, ok := texts[strings.ToLower(words[1])]; ok {
				last = append([]string{text}, words[2:]...)
			}
		}
	}
	require.NotEmpty(t, last, "no script was run: %v", lines.Err())
	n, err := strconv.Atoi(last[1])
	require.NoError(t, err)
	return last[0], last[2 : 2+n], last[2+n:]
}

// wordsOf returns the words of a command of a client, as MONITOR shows it:
// +1700000000.123456 [0 127.0.0.1:4711] "GET" "key".
func wordsOf(line string) (words []string) {
	source, rest, _ := strings.Cut(line, "] ")
	if strings.HasSuffix(source, " lua") {
		return nil
	}
	for {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return words
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return words
		}
		words, rest = append(words, word), strings.TrimLeft(rest[len(quoted):], " ")
	}
}

// scriptHash is the name that Redis gives a script.
func scriptHash(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}
