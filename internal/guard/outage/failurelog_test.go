package outage

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Requests of an outage have its line only, and others one in half a minute.
func TestFailureLog_ManyFailures_HaveOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := FailureLog{Log: slog.New(slog.NewTextHandler(&text, nil)), Up: "up", Moved: "moved", Down: "down",
			Failed: "failed"}
		failure := errors.New("a cause")
		for range 3 {
			log.RequestFailed(failure)
		}
		time.Sleep(failureInterval)
		log.RequestFailed(failure)
		log.RedisChanged("a:1", false, &callError{"of a customer", node{}, failure})
		time.Sleep(failureInterval)
		log.RequestFailed(failure)
		log.RedisChanged("a:1", true, nil)
		log.RequestFailed(failure)
		log.RedisChanged("a:1", false, failure)
		log.RedisChanged("a:1", true, &movedError{})
		var lines []string
		for line := range strings.Lines(text.String()) {
			_, message, _ := strings.Cut(line, " msg=")
			lines = append(lines, strings.TrimSpace(message))
		}
		assert.Equal(t, []string{
			`failed error="a cause"`, `failed error="a cause"`, `down node=a:1 error="a cause"`, "up node=a:1",
			`failed error="a cause"`, `down node=a:1 error="a cause"`, `moved node=a:1 to=""`,
		}, lines)
	})
}
