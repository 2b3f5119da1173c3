package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// grant is one call that got its permits, somewhere between its start and its end.
type grant struct {
	start, end time.Time
	permits    int64
}

// fullest returns the most permits that were granted for certain within one window of that length.
// It checks a window from each millisecond in which a grant began.
func fullest(grants []grant, window time.Duration) int64 {
	sort.Slice(grants, func(i, j int) bool { return grants[i].start.Before(grants[j].start) })
	var most int64
	var from time.Time
	for i, first := range grants {
		if i > 0 && first.start.Sub(from) < time.Millisecond {
			continue
		}
		from = first.start
		var sum int64
		for _, g := range grants[i:] {
			if g.start.Sub(from) >= window {
				break
			}
			if g.end.Sub(from) < window-time.Millisecond { // a grant is dated in whole milliseconds
				sum += g.permits
			}
		}
		most = max(most, sum)
	}
	return most
}

// account compares the grants in Redis with the answers of the callers, if the whole run is in one
// window.
func (s *server) account(ctx context.Context, names []string, l limit, told int64) error {
	var remembered int64
	for _, name := range names {
		permits, free, err := s.state(ctx, name)
		if err != nil {
			return err
		}
		if permits > l.permits {
			return fmt.Errorf("%d permits of %s lie in one window, its rate is %d", permits, name, l.permits)
		}
		if free >= 0 && permits+free != l.permits {
			return fmt.Errorf("%d permits of %s are taken and %d free, its rate is %d", permits, name, free, l.permits)
		}
		remembered += permits
	}
	if remembered != told {
		return fmt.Errorf("callers were granted %d permits, Redis remembers %d", told, remembered)
	}
	return nil
}

// state reads the permits that are taken, and the free ones, or -1 if none was ever taken.
func (s *server) state(ctx context.Context, name string) (taken, free int64, err error) {
	free, err = s.redis.Do(ctx, s.redis.B().Get().Key("{"+name+"}:value").Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		free = -1
	} else if err != nil {
		return 0, 0, err
	}
	const page = 50_000
	for from := int64(0); ; from += page {
		members, err := s.redis.Do(ctx, s.redis.B().Zrange().Key("{"+name+"}:permits").
			Min(strconv.FormatInt(from, 10)).Max(strconv.FormatInt(from+page-1, 10)).Build()).AsStrSlice()
		if err != nil {
			return 0, 0, err
		}
		for _, m := range members {
			if len(m) < 4 {
				return 0, 0, fmt.Errorf("a member of %d bytes", len(m))
			}
			n := m[len(m)-4:]
			taken += int64(n[0]) | int64(n[1])<<8 | int64(n[2])<<16 | int64(n[3])<<24
		}
		if len(members) < page {
			return taken, free, nil
		}
	}
}
