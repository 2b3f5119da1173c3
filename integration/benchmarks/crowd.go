package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
)

// A crowd is callers that all wait in Acquire for a limiter with few permits.
const (
	crowdCallers = 500
	crowdApart   = 2 * time.Millisecond // between one caller and the next, so that their order is known on a busy machine too
	// The crowd waits until all callers were served once, which takes 10 s at the rate of the limit
	// if no caller is overtaken, or for this long.
	crowdLongest = 12 * time.Second
)

var crowdLimit = limit{50, time.Second}

// permitTime is the time between two permits. A caller that is served earlier than a previous one
// by so much has overtaken it. If the difference is smaller, the same call may have granted both,
// and the later caller was woken first.
const permitTime = 20 * time.Millisecond

// crowdKinds are the ways in which the taken permits return.
var crowdKinds = []struct {
	name  string
	apart time.Duration // one permit and the next
}{
	{"one by one", permitTime},
	{"all at once", 0},
}

// crowdRuns are the figures of each contender, by round.
type crowdRuns struct {
	name    string
	figures map[string][]crowdFigures
}

type crowdFigures struct {
	refused   string
	requests  float64 // a granted permit
	overtaken int     // callers that were served after one that came later
	unserved  int     // callers that were not served at all
}

// crowdContenders are the contenders that can wait for permits. All callers call Acquire at the same
// time.
var crowdContenders = []struct {
	key    string
	strict bool // every caller must be served in order
	open   func(ctx context.Context, b *bench, name string) (acquire func(context.Context) error, closeContender func(),
		err error)
}{
	{"ours", true, func(_ context.Context, b *bench, name string) (func(context.Context) error, func(), error) {
		redis, err := dial(b.redis.Addr())
		if err != nil {
			return nil, nil, err
		}
		limiter := rratelimiter.New(redis).Limiter(name)
		return func(ctx context.Context) error { return limiter.Acquire(ctx, 1) }, redis.Close, nil
	}},
	{"script", false, func(ctx context.Context, b *bench, name string) (func(context.Context) error, func(), error) {
		script, err := b.redissonScript(ctx)
		if err != nil {
			return nil, nil, err
		}
		redis, err := dial(b.redis.Addr())
		if err != nil {
			return nil, nil, err
		}
		keys := script.keysOf(name)
		return func(ctx context.Context) error { return script.wait(ctx, redis, keys) }, redis.Close, nil
	}},
	{"jvm-sync", false, func(ctx context.Context, b *bench, name string) (func(context.Context) error, func(), error) {
		redisson, err := b.jvm(ctx)
		if err != nil {
			return nil, nil, err
		}
		limiter := redisson.Limiter(name)
		return func(ctx context.Context) error { return limiter.Acquire(ctx, 1) }, func() {}, nil
	}},
}

// wait does as Redisson does: it sleeps for the time that the script replied, and calls again.
func (s *acquireScript) wait(ctx context.Context, redis rueidis.Client, keys []string) error {
	for {
		granted, after, err := s.take(ctx, redis, keys, 1, time.Now())
		if granted || err != nil {
			return err
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *bench) crowds(ctx context.Context, only []string) ([]crowdRuns, error) {
	var all []crowdRuns
	for _, kind := range crowdKinds {
		r := crowdRuns{kind.name, make(map[string][]crowdFigures)}
		for range b.rounds {
			for i, s := range crowdContenders {
				if len(only) > 0 && !slices.Contains(only, s.key) {
					continue
				}
				f, err := b.crowd(ctx, i, kind.apart)
				if err != nil {
					return all, fmt.Errorf("waiting callers, %s, %s: %w", kind.name, s.key, err)
				}
				r.figures[s.key] = append(r.figures[s.key], f)
			}
		}
		all = append(all, r)
	}
	return all, nil
}

// crowd runs callers that queue again as soon as they are served, so that the length of the queue
// is constant.
func (b *bench) crowd(ctx context.Context, index int, apart time.Duration) (crowdFigures, error) {
	if err := b.server.clear(ctx); err != nil {
		return crowdFigures{}, err
	}
	b.crowdsSeen++
	name := fmt.Sprintf("crowd-%d", b.crowdsSeen)
	s := crowdContenders[index]
	acquire, closeContender, err := s.open(context.WithoutCancel(ctx), b, name)
	if err != nil {
		return crowdFigures{}, err
	}
	defer closeContender()
	if err := b.takeAll(ctx, name, apart); err != nil {
		return crowdFigures{}, err
	}
	before, err := b.server.usage(ctx)
	if err != nil {
		return crowdFigures{}, err
	}

	// Without a deadline: if a deadline cannot be met, this library would answer at once.
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	first := make([]time.Time, crowdCallers) // when each was served for the first time
	errs := make([]error, crowdCallers)
	var granted atomic.Int64
	var waiting, unserved sync.WaitGroup
	unserved.Add(crowdCallers)
	for i := range crowdCallers {
		waiting.Go(func() {
			for errs[i] == nil {
				if errs[i] = acquire(waitCtx); errs[i] == nil {
					granted.Add(1)
					if first[i].IsZero() {
						first[i] = time.Now()
						unserved.Done()
					}
				}
			}
			if first[i].IsZero() {
				unserved.Done()
			}
		})
		time.Sleep(crowdApart)
	}
	timer := time.AfterFunc(crowdLongest, cancel)
	defer timer.Stop()
	unserved.Wait()
	took, count := time.Since(start), granted.Load()
	after, err := b.server.usage(ctx)
	cancel()
	waiting.Wait()
	if err != nil {
		return crowdFigures{}, err
	}
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) {
			return crowdFigures{}, err
		}
	}
	// Callers in Java continue to wait, and end when the limiter no longer exists.
	if err := b.server.clear(ctx); err != nil {
		return crowdFigures{}, err
	}
	time.Sleep(crowdLimit.interval + crowdLimit.interval/2)
	return checkCrowd(first, took, count, requests(before, after, scripts), s.strict), nil
}

func checkCrowd(first []time.Time, took time.Duration, granted int64, requests float64, strict bool) crowdFigures {
	f := crowdFigures{requests: requests / float64(granted)}
	var earliest time.Time // of the callers that came later
	for _, at := range slices.Backward(first) {
		switch {
		case at.IsZero():
			f.unserved++
			f.overtaken++
			continue
		case !earliest.IsZero() && at.Sub(earliest) >= permitTime:
			f.overtaken++
		}
		if earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
	}
	// All permits were taken at first, so they return during the first window.
	most := (int64(took/crowdLimit.interval) + 1) * crowdLimit.permits
	switch {
	case granted > most:
		f.refused = fmt.Sprintf("%d permits were granted in %v, the rate allows %d", granted, took, most)
	case strict && f.overtaken > 0:
		f.refused = fmt.Sprintf("%d callers of %d were overtaken", f.overtaken, len(first))
	}
	return f
}

// takeAll sets up the crowd's limiter with all permits taken, the oldest about to return.
func (b *bench) takeAll(ctx context.Context, name string, apart time.Duration) error {
	if err := setRates(ctx, b.server.redis, load{names: []string{name}, limit: crowdLimit}); err != nil {
		return err
	}
	newest := time.Now()
	var grants []preparedGrant
	for i := range crowdLimit.permits {
		grants = append(grants, preparedGrant{newest.Add(-time.Duration(i) * apart), 1})
	}
	return b.prepare(ctx, name, 0, grants)
}

// preparedGrant is a grant that is written to Redis in Redisson's layout.
type preparedGrant struct {
	at      time.Time
	permits uint32
}

// prepare writes the state of a limiter.
func (b *bench) prepare(ctx context.Context, name string, free int64, grants []preparedGrant) error {
	redis := b.server.redis
	if err := redis.Do(ctx,
		redis.B().Set().Key("{"+name+"}:value").Value(strconv.FormatInt(free, 10)).Build()).Error(); err != nil {
		return err
	}
	const page = 500
	serial := 0
	for chunk := range slices.Chunk(grants, page) {
		add := redis.B().Zadd().Key("{" + name + "}:permits").ScoreMember()
		for _, g := range chunk {
			serial++
			member := fmt.Appendf(nil, "\x10%016d", serial)
			member = append(member, byte(g.permits), byte(g.permits>>8), byte(g.permits>>16), byte(g.permits>>24))
			add = add.ScoreMember(float64(g.at.UnixMilli()), string(member))
		}
		if err := redis.Do(ctx, add.Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}
