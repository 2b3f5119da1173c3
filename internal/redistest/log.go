package redistest

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Log is the output of a program that runs while a test reads it.
type Log struct {
	mu    sync.Mutex
	text  []byte
	found int // where the last text of Await ends
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// String returns the whole output so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// Await waits for a text behind those of the calls before.
func (l *Log) Await(t testing.TB, text string) {
	t.Helper()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		at := bytes.Index(l.text[l.found:], []byte(text))
		if at >= 0 {
			l.found += at + len(text)
		}
		return at >= 0
	}, 30*time.Second, 10*time.Millisecond, text)
}
