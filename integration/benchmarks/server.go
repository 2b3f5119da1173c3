package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// server is the Redis of all contenders, as the benchmark itself uses it.
type server struct {
	redis rueidis.Client
}

// usage is what the server has counted so far.
type usage struct {
	cpu      time.Duration
	bytes    float64
	commands map[string]command
}

type command struct {
	calls float64
	time  time.Duration
}

func (s *server) info(ctx context.Context, sections ...string) (map[string]string, error) {
	text, err := s.redis.Do(ctx, s.redis.B().Info().Section(sections...).Build()).ToString()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, found := strings.Cut(line, ":"); found {
			fields[name] = value
		}
	}
	return fields, nil
}

func (s *server) usage(ctx context.Context) (usage, error) {
	fields, err := s.info(ctx, "cpu", "stats", "commandstats")
	if err != nil {
		return usage{}, err
	}
	u := usage{commands: make(map[string]command)}
	number := func(text string) float64 {
		n, parseErr := strconv.ParseFloat(text, 64)
		if parseErr != nil && err == nil {
			err = fmt.Errorf("INFO: %w", parseErr)
		}
		return n
	}
	u.cpu = time.Duration((number(fields["used_cpu_sys"]) + number(fields["used_cpu_user"])) * float64(time.Second))
	u.bytes = number(fields["total_net_input_bytes"]) + number(fields["total_net_output_bytes"])
	for name, value := range fields {
		name, found := strings.CutPrefix(name, "cmdstat_")
		if !found {
			continue
		}
		var c command
		for part := range strings.SplitSeq(value, ",") {
			switch key, text, _ := strings.Cut(part, "="); key {
			case "calls":
				c.calls = number(text)
			case "usec":
				c.time = time.Duration(number(text) * float64(time.Microsecond))
			}
		}
		u.commands[name] = c
	}
	return u, err
}

// requests counts the requests between two times.
func requests(before, after usage, weights map[string]float64) float64 {
	var n float64
	for name, weight := range weights {
		n += weight * (after.commands[name].calls - before.commands[name].calls)
	}
	return n
}

// clear empties the server, so that no contender meets the state of another one: its keys, and
// garbage in the memory of Lua. A script that has read a million members leaves garbage that later
// scripts have to collect.
func (s *server) clear(ctx context.Context) error {
	return errors.Join(
		s.redis.Do(ctx, s.redis.B().Flushall().Sync().Build()).Error(),
		s.redis.Do(ctx, s.redis.B().ScriptFlush().Build()).Error(),
	)
}

// do runs a command and returns its reply.
func (s *server) do(ctx context.Context, args ...string) (rueidis.RedisMessage, error) {
	return s.redis.Do(ctx, s.redis.B().Arbitrary(args...).Build()).ToMessage()
}
