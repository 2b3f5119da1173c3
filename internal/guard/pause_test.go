package guard

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/limit"
)

// Past pauses are deleted. No pause becomes shorter.
func TestPauses_ManyNames_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pauses
		p.Add("", time.Second)
		assert.Empty(t, p.byName)
		for i := range maxPauses + 1 {
			p.Add(fmt.Sprint(i), time.Second)
		}
		assert.Len(t, p.byName, maxPauses)
		assert.Zero(t, p.left(fmt.Sprint(maxPauses), true))
		p.Add("0", 2*time.Second)
		p.Add("0", time.Second)
		assert.Equal(t, 2*time.Second, p.left("0", true))
		time.Sleep(2 * time.Second)
		p.Add("another", time.Minute)
		assert.Equal(t, time.Minute, p.left("another", true), "past pauses make room")
		assert.Len(t, p.byName, 1)
		time.Sleep(time.Minute)
		assert.Zero(t, p.left("another", true))
		assert.Empty(t, p.byName)
	})
}

func TestPauses_BeginInAnOutage_Hold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pauses
		r, begin := new(redis), time.Now()
		r.hangs.Store(true)
		time.AfterFunc(deadline/2, func() { p.Add(r.Name(), time.Second) })
		a := New(limit.Open, deadline, nil).Ask(t.Context(), Request{Limiter: r, Permits: 1, Wait: Forever, Pauses: &p})
		assert.Equal(t, limit.FailedOpen, a.Result)
		assert.GreaterOrEqual(t, time.Since(begin), deadline/2+time.Second)
		r.hangs.Store(false)
		time.Sleep(2 * deadline) // the prober ends
	})
}
