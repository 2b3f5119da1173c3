package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestWatch_RedisRestarts_Continues: also if a limiter is deleted and created again, or if Redis
// does not answer.
func TestWatch_RedisRestarts_Continues(t *testing.T) {
	s := startRedis(t)
	s.on("set", "api", "10/1h")
	s.on("try", "api", "-n", "4")
	s.on("try", "u", "--policy", "fixed_window:5/1h")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, failed redistest.Log
	ended := make(chan int, 1)
	go func() {
		ended <- runTool(ctx, []string{"watch", "api", "u", "--every", "50ms", "--timeout", "1s", "--redis", s.url()},
			&out, &failed)
	}()
	out.Await(t, ` api "OVERALL 10/1h" taken=4`)
	s.run("DEL api")
	out.Await(t, ` api "no limiter"`)
	s.on("set", "api", "20/1h")
	out.Await(t, ` api "OVERALL 20/1h" taken=4`)
	_ = s.Do(context.Background(), s.B().Arbitrary("DEBUG", "RESTART").Build()).Error() // which ends the connection
	out.Await(t, ` wrong="`)
	out.Await(t, ` api "no limiter"`) // nothing of it was saved
	require.Eventually(t, func() bool { return tool("set", "api", "30/1h", "--redis", s.url()).code == exitDone },
		30*time.Second, 10*time.Millisecond)
	out.Await(t, ` api "OVERALL 30/1h" taken=0`)
	s.run("CLIENT PAUSE 5000 ALL") // longer than a look waits
	out.Await(t, ` api "OVERALL 30/1h" taken=0 limit=30 wrong="`)
	out.Await(t, "does not answer in time")
	out.Await(t, ` api "OVERALL 30/1h" taken=0`)
	cancel()
	require.Equal(t, exitDone, <-ended, failed.String())
}

// TestWatch_CorruptLimiter_ShowsTheProblem: it is not shown as one with nothing taken.
func TestWatch_CorruptLimiter_ShowsTheProblem(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "")
	s.run("SADD {a}:value 1")
	put(s, "b", "x", grant("12345678", 1))
	require.Contains(t, s.on("watch", "a", "--count", "1"), "another type")
	require.Contains(t, s.on("watch", "b", "--count", "1"), "want a whole number")
}

// TestWatch_GrantOfTheFuture_CountsOnce: when its time has come.
func TestWatch_GrantOfTheFuture_CountsOnce(t *testing.T) {
	s := startRedis(t)
	put(s, "a", "9")
	s.words("ZADD", "{a}:permits", fmt.Sprint(time.Now().Add(time.Second).UnixMilli()), grant("12345678", 3))
	out := s.on("watch", "a", "--every", "100ms", "--count", "25")
	require.Equal(t, 1, strings.Count(out, "granted=3"), out)
	require.Equal(t, 23, strings.Count(out, "granted=0"), out)
}
