// Package week runs each entry point of the library through a week. There are working hours beside Java,
// idle nights, restarts of Redis without data, deployments, a second pod, and a rate that changes.
// The clock is fake, and Redis is in memory.
package week

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// week is the life of an entry point.
type week struct {
	*redistest.Fixture
	entry entryPoint
	rate  int64 // in force
	pods  []*pod
	java  *java
	log   log
}

const rate = 20 // at first

func TestWeek_EveryEntryPoint_IsFairAndHeals(t *testing.T) {
	for _, entry := range entryPoints {
		t.Run(entry.name, func(t *testing.T) {
			t.Parallel()
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) { run(f, entry) })
		})
	}
}

func run(f *redistest.Fixture, entry entryPoint) {
	w := &week{Fixture: f, entry: entry, rate: rate}
	w.log.newLife()
	w.log.rates = []rateChange{{time.Now().UnixMilli(), rate}}
	w.java = &java{rratelimiter.New(f.QuickConn()).Limiter(shared), &w.log}
	w.start()

	w.day("Monday", func(ctx context.Context) { w.start().work(ctx) })
	w.day("Tuesday", w.restart)
	w.replace(w.rate, false)
	time.Sleep(night)
	w.replace(rate+rate/2, false)
	w.day("Wednesday", nil)
	w.replace(w.rate, true)
	time.Sleep(night)
	w.lose()
	w.replace(rate, false)
	w.day("Thursday", nil)

	w.log.check(f, entry)
	if entry.java {
		waiting, java := w.log.granted(ofGo), w.log.granted(ofJava)
		f.Logf("Go %d, Java %d", waiting, java)
		// A side that starves gets nearly nothing. Package crowd measures the shares for longer.
		require.GreaterOrEqual(f, min(waiting, java), (waiting+java)/25, "Go %d, Java %d", waiting, java)
	}
	for _, p := range w.pods {
		p.end()
	}
}

const (
	hours = 6 * interval   // of work; more of them are the same again
	night = 14 * time.Hour // the shared limiter expires in it
)

// day is working hours, in the middle of which something happens, and a night.
func (w *week) day(name string, noon func(ctx context.Context)) {
	w.crowd("in the morning of "+name, 1)
	ctx, end := context.WithCancel(w.Context())
	var java sync.WaitGroup
	stop := func() {
		end()
		for _, p := range w.pods {
			p.callers.Wait()
		}
		java.Wait()
	}
	w.Cleanup(stop) // if an assertion fails
	if w.entry.java {
		for range threads {
			java.Go(func() { w.java.loop(ctx) })
		}
	}
	for _, p := range w.pods {
		p.work(ctx)
	}
	time.Sleep(hours / 2)
	if noon != nil {
		noon(ctx)
	}
	time.Sleep(hours / 2)
	stop()
	time.Sleep(2 * interval)
	w.crowd("in the evening of "+name, 1)
	time.Sleep(night)
}

// restart has Redis restart without data while callers work.
func (w *week) restart(context.Context) {
	w.lose()
	least := int64(1)
	if w.entry.cached {
		least = 0
	}
	w.crowd("after a restart", least)
}
