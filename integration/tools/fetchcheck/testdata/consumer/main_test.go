package main

import (
	"testing"
	"testing/synctest"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/rratelimitertest"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := rratelimitertest.New(t)
		err := env.Client.Limiter("paid-api").SetRate(t.Context(), rratelimiter.Rate{Permits: 1, Interval: 1e9})
		if err != nil {
			t.Error(err)
		}
	})
}
