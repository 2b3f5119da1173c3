package rratelimiter

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// What is said of the times to come follows from what the last call told and who stands ahead, and from nothing else.

func TestWhenPermitsAreFreeAtTheEarliest(t *testing.T) {
	// The permits of a return include those before it.
	returns := []returning{{2 * second, 3}, {5 * second, 10}}
	for _, test := range []struct {
		free, permits int64
		returns       []returning
		want          time.Duration
	}{
		{10, 10, nil, 0},
		{4, 4, returns, 0},
		{4, 5, returns, 2 * second},
		{0, 3, returns, 2 * second},
		{0, 4, returns, 5 * second},
		{0, 10, returns, 5 * second},
		{-2, 1, returns, 2 * second}, // more are taken than the rate
		{-2, 2, returns, 5 * second},
		{-2, 10, returns, 5 * second}, // no more than a page of returns is known
		{0, 1, nil, 0},
	} {
		o := &outlook{rate: 10, interval: 10 * second, free: test.free, returns: test.returns}
		assert.Equal(t, test.want, o.Earliest(test.permits), "%d permits, %d free, %v", test.permits, test.free, test.returns)
	}
}

// TestWhenTheLastOfManyPermitsIsFreeAtTheEarliest, where more is wanted than the rate: each rate takes an interval more.
func TestWhenTheLastOfManyPermitsIsFreeAtTheEarliest(t *testing.T) {
	const never = time.Duration(math.MaxInt64)
	for name, test := range map[string]struct {
		free     int64
		wanted   int64
		interval time.Duration
		want     time.Duration
	}{
		"the first return":            {0, 3, 10 * second, 2 * second},
		"one more permit":             {0, 4, 10 * second, 5 * second},
		"all that a rate has":         {0, 10, 10 * second, 5 * second},
		"the next rate":               {0, 11, 10 * second, 12 * second},
		"three rates":                 {0, 25, 10 * second, 25 * second},
		"free permits":                {4, 4, 10 * second, 0},
		"free permits, once more":     {4, 14, 10 * second, 10 * second},
		"so often that nobody lives":  {0, math.MaxInt64, 10 * second, never},
		"as often as a number counts": {0, math.MaxInt64 - 1, 10 * second, never},
		"a time that overflows":       {0, 21, 1 << 62, never},
		"a time that overflows to 0":  {0, 41, 1 << 62, never},
		"a time that just overflows":  {0, 11, never - second, never},
		"a time that does not":        {0, 11, never - 4*second, never - 2*second},
	} {
		o := &outlook{rate: 10, interval: test.interval, free: test.free, returns: []returning{{2 * second, 3}, {5 * second, 10}}}
		assert.Equal(t, test.want, o.Earliest(test.wanted), name)
	}
}

// TestWhatADenialAnswers, and where it is not known.
func TestWhatADenialAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		free, permits int64
		want          time.Duration // RetryAfter; below 0 where it is not known
	}{
		"the first return":              {0, 2, 2 * second},
		"all of it":                     {0, 3, 2 * second},
		"behind the first return":       {0, 4, 5 * second},
		"all that is known":             {0, 7, 5 * second},
		"more than is known":            {0, 8, -1},
		"with some free":                {1, 8, 5 * second},
		"with some free, and more":      {1, 9, -1},
		"with some free, in the first":  {1, 4, 2 * second},
		"where more than the rate went": {-2, 1, 2 * second},
		"further":                       {-2, 2, 5 * second},
		"the last of it":                {-2, 5, 5 * second},
		"beyond it":                     {-2, 6, -1},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outlook{rate: 10, free: test.free, reset: 6 * second, returns: []returning{{2 * second, 3}, {5 * second, 7}}}
			got, known := o.Denied(test.permits)
			require.Equal(t, test.want >= 0, known)
			if known {
				assert.Equal(t, engine.Answer{Limit: 10, Remaining: max(0, test.free), RetryAfter: test.want, ResetAfter: 6 * second}, got)
			}
		})
	}
	_, known := (&outlook{rate: 10}).Denied(1)
	assert.False(t, known, "no return is known")
}

// TestWhichLimiterIsWorse for those who wait: one of a lower rate or a longer interval.
func TestWhichLimiterIsWorse(t *testing.T) {
	before := &outlook{rate: 10, interval: 10 * second}
	for name, test := range map[string]struct {
		o    outlook
		want bool
	}{
		"the same":          {outlook{rate: 10, interval: 10 * second, free: -3}, false},
		"a lower rate":      {outlook{rate: 9, interval: 10 * second, free: 9}, true},
		"a higher rate":     {outlook{rate: 11, interval: 10 * second}, false},
		"a longer interval": {outlook{rate: 10, interval: 11 * second}, true},
		"a shorter one":     {outlook{rate: 10, interval: 9 * second}, false},
	} {
		assert.Equal(t, test.want, test.o.Worse(before), name)
	}
}
