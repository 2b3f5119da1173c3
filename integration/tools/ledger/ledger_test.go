package ledger

import (
	"context"
	"errors"
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

func TestTime_EachResult_IsBooked(t *testing.T) {
	l := New(nil)
	before := time.Now()
	granted, err := l.Time("go", 3, func() (bool, error) { return true, nil })
	require.NoError(t, err)
	require.True(t, granted)
	granted, err = l.Time("go", 3, func() (bool, error) { return false, nil })
	require.NoError(t, err)
	require.False(t, granted)
	_, err = l.Time("go", 3, func() (bool, error) { return false, context.Canceled })
	require.ErrorIs(t, err, context.Canceled)

	grants := l.Grants()
	require.Len(t, grants, 1)
	require.Equal(t, int64(3), grants[0].Permits)
	require.Equal(t, "go", grants[0].Who)
	require.False(t, grants[0].Start.Before(before))
	require.False(t, grants[0].End.Before(grants[0].Start))
	require.Equal(t, int64(1), l.Denials())
	require.Equal(t, map[string]int64{Unclassified: 1}, l.Errors())
	require.Equal(t, []error{context.Canceled}, l.Unclassified())
	failures := l.Failures()
	require.Len(t, failures, 1)
	require.Equal(t, Unclassified, failures[0].Kind)
	require.Equal(t, context.Canceled, failures[0].Err)
	require.Equal(t, "go", failures[0].Who)
	require.False(t, failures[0].Start.Before(grants[0].End))
	require.False(t, failures[0].End.Before(failures[0].Start))
}

func TestFailed_Kinds_AreCounted(t *testing.T) {
	l := New(func(err error) string {
		if errors.Is(err, context.Canceled) {
			return "canceled"
		}
		return ""
	})
	l.Granted(grant(0, 0, 3), grant(1, 1, 2))
	l.Denied(4)
	l.Failed(context.Canceled, 5)
	for range 11 {
		l.Failed(errors.New("odd"), 2)
	}
	require.Equal(t, map[string]int64{"canceled": 5, Unclassified: 22}, l.Errors())
	require.Len(t, l.Unclassified(), 10, "the first few")
	f := l.Figures("all", 1000, time.Second, 0, 0)
	require.Equal(t, int64(33), f.Calls())
	require.Equal(t, int64(5), f.Worst)
}

func TestFigures_String_HasEachFigure(t *testing.T) {
	require.Equal(t, "master lost: 34 calls, 10 grants, 2 denials, errors: closed 20, cut 1, moved 1; the fullest window "+
		"holds 51 of 50; 3 permits are missing and 12 goroutines left",
		Figures{Run: "master lost", Grants: 10, Denials: 2, Errors: map[string]int64{"moved": 1, "closed": 20, "cut": 1},
			Worst: 51, Rate: 50, Missing: 3, Goroutines: 12}.String())
	require.Contains(t, Figures{}.String(), "errors: 0;")
}
