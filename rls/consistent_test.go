package rls

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
)

// The rules that choose the descriptors decide them.
func TestHandler_Reload_DecidesByOneConfiguration(t *testing.T) {
	client, _ := guardtest.Connect(t)
	file := filepath.Join(t.TempDir(), "half.yaml")
	write := func(key string) {
		text := fmt.Sprintf("domain: x\ndescriptors:\n  - {key: %s, rate_limit: {unit: second, requests_per_unit: 0}}\n"+
			"http:\n  requests:\n    - descriptor: [{key: %s, value: all}]\n", key, key)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("a")
	s, err := New(Config{Client: client, Path: file, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	files := make(map[string]*Rules)
	for _, key := range []string{"a", "b"} {
		write(key)
		files[key], err = Load(file, false)
		require.NoError(t, err)
	}
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for {
			for _, rules := range files {
				s.rules.Store(rules)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	handler := s.Handler()
	passed := 0
	for range 20_000 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/auth/x", nil))
		if w.Code != http.StatusTooManyRequests {
			passed++
		}
	}
	close(stop)
	changing.Wait()
	assert.Zero(t, passed, "both configurations refuse everything")
}
