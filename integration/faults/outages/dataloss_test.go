package outages

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// A server without persistence crashes and comes back empty. The limiter is gone, and every call
// reports this until its rate is set again. It starts with all permits free: a window that spans
// the crash may hold one more rate, and no more.
func TestOutage_DataLoss_GrantsAtMostTwice(t *testing.T) {
	server := servers.Single(t)
	load := Start(t, "restart that lost the data", OnSingle(server))

	load.Run(time.Second)
	load.Break()
	require.NoError(t, server.Kill())
	killed := time.Now()
	load.MayLose(killed.Add(-Interval), killed)
	require.NoError(t, server.Restart())
	load.Run(200 * time.Millisecond)
	load.SetRate()
	outcome := load.Recover()
	outcome.Require(Most{notInitialized: outcome.oftenBy(pause), refused: outcome.oftenBy(pause),
		cut: outcome.onceEach()})
	require.LessOrEqual(t, ledger.Worst(outcome.grants, Interval).Permits, int64(2*Rate))
	require.Positive(t, outcome.goBooks.Errors()[notInitialized], "no caller noticed the loss")
}
