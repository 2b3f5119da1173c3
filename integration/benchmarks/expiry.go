package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// expiry is how long the server is blocked when very many grants expire at once.
type expiry struct {
	grants int
	cases  []expiryCase
}

type expiryCase struct {
	name    string
	staying int // of the grants, those that are still in the window
	ours    []expiryRun
	their   []expiryRun
}

// expiryRun is one round of a contender.
type expiryRun struct {
	longest time.Duration // of its calls, by SLOWLOG
	calls   int           // until all permits that had expired were counted as free
}

// slowest is the duration from which SLOWLOG records a call: logging itself takes time.
const slowest = 100 * time.Microsecond

func (b *bench) expiry(ctx context.Context, grants int) (expiry, error) {
	result := expiry{grants: grants, cases: []expiryCase{{name: "all of them"}, {name: "all but one", staying: 1}}}
	for i := range result.cases {
		c := &result.cases[i]
		for range b.rounds {
			for _, ours := range []bool{true, false} {
				run, err := b.expire(ctx, grants, c.staying, ours)
				if err != nil {
					return result, fmt.Errorf("%d grants expire, %s: %w", grants, c.name, err)
				}
				if ours {
					c.ours = append(c.ours, run)
				} else {
					c.their = append(c.their, run)
				}
			}
		}
	}
	return result, nil
}

// expire lets all grants expire at once, and acquires until the limiter has counted all their
// permits as free.
func (b *bench) expire(ctx context.Context, count, staying int, ours bool) (expiryRun, error) {
	rate := limit{2 * int64(count), time.Minute}
	then := time.Now().Add(-rate.interval)
	now := &clock{then.Add(rate.interval)}
	if err := b.server.clear(ctx); err != nil {
		return expiryRun{}, err
	}
	name := names(1)[0]
	acquire, closeContender, err := b.lone(ctx, scriptCase{limit: rate}, name, now, ours)
	if err != nil {
		return expiryRun{}, err
	}
	defer closeContender()
	// The first call may have to send the script's text, which SLOWLOG would count as a long one.
	if _, err := acquire(ctx); err != nil {
		return expiryRun{}, err
	}
	if _, err := b.server.do(ctx, "DEL", "{"+name+"}:permits", "{"+name+"}:value"); err != nil {
		return expiryRun{}, err
	}
	grants := slices.Repeat([]preparedGrant{{then, 1}}, count)
	for i := range staying {
		grants[i].at = now.now
	}
	if err := b.prepare(ctx, name, rate.permits-int64(count), grants); err != nil {
		return expiryRun{}, err
	}
	for _, config := range [][]string{{"slowlog-log-slower-than", strconv.FormatInt(slowest.Microseconds(), 10)},
		{"slowlog-max-len", "100000"}} {
		if _, err := b.server.do(ctx, "CONFIG", "SET", config[0], config[1]); err != nil {
			return expiryRun{}, err
		}
	}
	if _, err := b.server.do(ctx, "SLOWLOG", "RESET"); err != nil {
		return expiryRun{}, err
	}
	run := expiryRun{}
	limit := strconv.FormatInt(then.UnixMilli(), 10)
	for left := int64(1); left > 0; {
		granted, err := acquire(ctx)
		if err != nil {
			return run, err
		}
		if !granted {
			return run, fmt.Errorf("call %d was denied though %d permits were free", run.calls+1, count)
		}
		run.calls++
		reply, err := b.server.do(ctx, "ZCOUNT", "{"+name+"}:permits", "-inf", limit)
		if err != nil {
			return run, err
		}
		if left, err = reply.AsInt64(); err != nil {
			return run, err
		}
	}
	run.longest, err = b.longestScript(ctx)
	return run, err
}

// longestScript returns the longest call of a script in SLOWLOG, or the bound that no call
// exceeded.
func (b *bench) longestScript(ctx context.Context) (time.Duration, error) {
	log, err := b.server.do(ctx, "SLOWLOG", "GET", "-1")
	if err != nil {
		return 0, err
	}
	entries, err := log.ToArray()
	if err != nil {
		return 0, err
	}
	longest := slowest.Microseconds()
	for _, entry := range entries {
		// Id, time, microseconds, arguments, and other fields that are not used here.
		fields, err := entry.ToArray()
		if err != nil || len(fields) < 4 {
			return 0, fmt.Errorf("an entry of SLOWLOG with %d fields: %w", len(fields), err)
		}
		args, err := fields[3].AsStrSlice()
		if err != nil {
			return 0, err
		}
		took, err := fields[2].AsInt64()
		if err != nil {
			return 0, err
		}
		if args[0] == "EVALSHA" || args[0] == "EVAL" {
			longest = max(longest, took)
		}
	}
	return time.Duration(longest) * time.Microsecond, nil
}
