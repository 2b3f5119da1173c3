package outages

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// NewestGrant returns the time of the newest grant that a replica has of a limiter. Its master made
// all grants that the replica lacks after that one, so their calls ended at that time or later. Ask before the
// master fails: on a busy machine, the replica may have noticed it by the time of the reply, and answer nothing or
// with grants of its own.
func NewestGrant(t testing.TB, replica *servers.Server, limiter string) time.Time {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{replica.Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	require.NoError(t, err)
	defer client.Close()
	var newest []rueidis.ZScore
	require.NoError(t, client.Dedicated(func(c rueidis.DedicatedClient) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		// A server outside a cluster rejects READONLY, and does not need it.
		_ = c.Do(ctx, c.B().Readonly().Build()).Error()
		newest, err = c.Do(ctx, c.B().Zrevrange().Key(limiter+":permits").Start(0).Stop(0).Withscores().Build()).AsZScores()
		return err
	}))
	require.Len(t, newest, 1, "the replica on %s has no grant of %s", replica.Addr(), limiter)
	return time.UnixMilli(int64(newest[0].Score))
}
