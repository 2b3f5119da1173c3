// Package logtail keeps the end of the output of a process, for messages of failed tests.
package logtail

import (
	"bytes"
	"sync"
)

// Tail keeps the last Keep bytes that are written to it.
type Tail struct {
	Keep int

	mu   sync.Mutex
	data []byte
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if extra := len(t.data) - t.Keep; extra > 0 {
		t.data = t.data[extra:]
	}
	return len(p), nil
}

func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.data, []byte("?")))
}
