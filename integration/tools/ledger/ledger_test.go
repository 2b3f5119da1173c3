package ledger

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var epoch = time.UnixMilli(1_700_000_000_000)

func grant(start, end time.Duration, permits int64) Grant {
	return Grant{Start: epoch.Add(start), End: epoch.Add(end), Permits: permits}
}

func TestWorst_TwoWindows_ReturnsTheFullest(t *testing.T) {
	got := Worst([]Grant{grant(0, 0, 1), grant(5*time.Second, 5*time.Second, 2),
		grant(5500*time.Millisecond, 5500*time.Millisecond, 2)}, time.Second)
	require.Equal(t, int64(4), got.Permits)
	require.Equal(t, 2, got.Grants)
	require.True(t, got.Start.Equal(epoch.Add(5*time.Second)))
}

// The sweep and the plain definition, every start against every grant, agree.
func TestWorst_RandomGrants_MatchesTheDefinition(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		grants := make([]Grant, random.IntN(60))
		for i := range grants {
			start := time.Duration(random.IntN(5_000_000)) * time.Microsecond
			length := time.Duration(random.IntN(300)) * time.Millisecond
			if random.IntN(10) == 0 {
				length *= 8
			}
			grants[i] = grant(start, start+length, 1+random.Int64N(5))
		}
		interval := time.Duration(1+random.IntN(2000)) * time.Millisecond
		require.Equal(t, worstByDefinition(grants, interval), Worst(grants, interval).Permits, "seed %d", seed)
	}
}

func worstByDefinition(grants []Grant, interval time.Duration) (worst int64) {
	for _, first := range grants {
		from := first.Start.Truncate(time.Millisecond)
		var sum int64
		for _, g := range grants {
			if !g.Start.Truncate(time.Millisecond).Before(from) && g.End.Before(from.Add(interval)) {
				sum += g.Permits
			}
		}
		worst = max(worst, sum)
	}
	return worst
}
