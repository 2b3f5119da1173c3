package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// closed is an output whose reader is gone.
type closed struct{ io.Writer }

func (closed) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestOutput_Closed_EndsWithoutAMessage: a closed pipe is no error.
func TestOutput_Closed_EndsWithoutAMessage(t *testing.T) {
	s := startRedis(t)
	zoo(s)
	for _, args := range [][]string{{"ls"}, {"show", "paid-api", "-o", "json"}, {"watch", "paid-api"}, {"audit"},
		{"bench", "--for", "50ms"}} {
		var failed strings.Builder
		a := &app{in: strings.NewReader(""), out: closed{}, err: &failed}
		require.Equal(t, exitError, a.run(context.Background(), append(args, "--redis", s.url())), args)
		require.Empty(t, failed.String())
	}
	require.NotContains(t, fmt.Sprint(keysOf(s)), "rrl-bench")
}
