package demo

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/inspect"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/screen"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/watch"
)

// Live runs the callers and shows watch until ctx ends or count samples were shown; 0 means no limit.
func Live(ctx context.Context, out io.Writer, every time.Duration, count int, json bool) error {
	simulation, err := Start(ctx, time.Now)
	if err != nil {
		return err
	}
	defer simulation.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	for _, who := range simulation.callers {
		wg.Go(func() {
			if err := simulation.run(ctx, who); err != nil {
				cancel(err)
			}
		})
	}
	wg.Go(func() { simulation.age(ctx) })
	if err := simulation.watcher().Run(ctx, out, Where, every, count, json); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// age lets keys expire by advancing the clock of the in-memory Redis.
func (s *Simulation) age(ctx context.Context) {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.server.FastForward(step)
		}
	}
}

func (s *Simulation) watcher() *watch.Watcher {
	return &watch.Watcher{Reader: &inspect.Reader{Redis: s.Redis, Now: s.clock}, Names: Names, Given: Given()}
}

// The size and length of the recording.
const (
	recordWidth, recordHeight = 80, 26
	recordEvery               = time.Second
	recordSkips               = 80 // hidden samples that fill the plots
	recordFrames              = 38 // two periods of the first limiter, so that the recording repeats smoothly
	shownFor                  = 400 * time.Millisecond
)

// Record writes the demo as SVG. Its clock is injected, so that every recording is the same.
func Record(ctx context.Context, out io.Writer) error {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	simulation, err := Start(ctx, func() time.Time { return now })
	if err != nil {
		return err
	}
	defer simulation.Close()
	simulation.server.SetTime(now)
	view, watcher := &watch.View{Where: Where, Every: recordEvery}, simulation.watcher()
	var frames []screen.Frame
	for n := range recordSkips + recordFrames {
		for range recordEvery / step {
			now = now.Add(step)
			simulation.server.SetTime(now)
			simulation.server.FastForward(step)
			for _, who := range simulation.callers {
				if err := simulation.work(ctx, who); err != nil {
					return err
				}
			}
		}
		samples, err := watcher.Look(ctx)
		if err != nil {
			return err
		}
		view.Add(samples)
		if n >= recordSkips {
			frames = append(frames, view.Frame(recordWidth, recordHeight))
		}
	}
	return screen.SVG(out, frames, recordWidth, recordHeight, shownFor)
}
