package differences_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The server grants, and the connection ends before the reply.
func TestTryAcquire_ReplyLost_IsSentOnce(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))
	disturbed := proxy.Start(t, server.Addr())
	// loseReply takes 2 permits, after one that is taken, in a call whose reply is lost.
	loseReply := func(l acquirer, name string) (granted bool, err error) {
		restore := disturbed.Disturb(t, "timeout", "downstream", `"timeout": 0`)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			granted, err = l.TryAcquire(t.Context(), 2)
		}()
		require.Eventually(t, func() bool { return len(counts(t, permitsKey(name))) == 2 }, 5*time.Second, time.Millisecond)
		restore() // closes the connection
		<-ended
		require.ElementsMatch(t, []int64{1, 2}, counts(t, permitsKey(name)))
		return granted, err
	}

	redisson := oracle.Start(t, redissonVersion, oracle.Single(disturbed.Listen),
		oracle.WithTimeout(5*time.Second)).Limiter(theirs.Name())
	take(t, redisson, 1)
	requireTrue(t)(loseReply(redisson, theirs.Name()))
	require.Equal(t, int64(5), value(t, theirs.Name()), "10 - 1 - 2 - 2")
	age(t, permitsKey(theirs.Name()), time.Minute)
	requireFree(t, theirs, 8)

	redis := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{disturbed.Listen}, ForceSingleClient: true,
		PipelineMultiplex: -1}) // one connection: another one would not be made while replies are lost
	client := rratelimiter.New(redis)
	take(t, client.Limiter(ours.Name()), 1)
	require.NoError(t, client.Flush(t.Context())) // the count of drift, which hides a second call
	_, err := loseReply(client.Limiter(ours.Name()), ours.Name())
	require.Error(t, err)
	require.Equal(t, int64(7), value(t, ours.Name()))
	age(t, permitsKey(ours.Name()), time.Minute)
	requireFree(t, ours, 10)
}
