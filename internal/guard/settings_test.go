package guard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestGate_Decide_FollowsTheSettings: Redis denies every request for a minute. The context of a
// request ends after ten.
func TestGate_Decide_FollowsTheSettings(t *testing.T) {
	for name, c := range map[string]struct {
		settings Settings
		outgoing bool
		err      error
		want     Result
		waits    bool
	}{
		"denied":              {want: Rejected},
		"denied, with a wait": {settings: Settings{Wait: 2 * time.Minute}, want: Rejected, waits: true},
		"denied, shadow":      {settings: Settings{Wait: 2 * time.Minute, Shadow: true}, want: Rejected},
		"outgoing":            {outgoing: true, want: Canceled, waits: true},
		"outgoing, at once":   {settings: Settings{AtOnce: true}, outgoing: true, want: Rejected},
		"no limiter":          {err: errRefused, want: FailedClosed},
		"no limiter, open":    {settings: Settings{Mode: Open}, err: errRefused, want: FailedOpen},
		"invalid, open":       {settings: Settings{Mode: Open}, err: ErrInvalidRequest, want: FailedClosed},
		"invalid as a failure": {settings: Settings{Mode: Open, InvalidFails: true}, err: ErrInvalidRequest,
			want: FailedOpen},
		"invalid, but outgoing": {settings: Settings{Mode: Open}, outgoing: true, err: ErrInvalidRequest, want: FailedOpen},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := c.settings
			s.Deadline, s.Sharing = deadline, NewShared
			g := s.Incoming(1)
			if c.outgoing {
				g = s.Outgoing()
			}
			r := new(redis)
			r.denies.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			begin := time.Now()
			a := g.Decide(ctx, Request{Limiter: r, Permits: 1}, c.err)
			assert.Equal(t, c.want, a.Result, name)
			assert.Equal(t, c.waits, time.Since(begin) > 0, name)
		})
	}
}
