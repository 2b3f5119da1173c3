package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// account compares the grants in Redis with the answers of the callers, if the whole run is in one
// window.
func (s *server) account(ctx context.Context, names []string, l limit, granted int64) error {
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
	if remembered != granted {
		return fmt.Errorf("callers were granted %d permits, Redis remembers %d", granted, remembered)
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
