package rratelimiter_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/memredis"
)

// recording is a file of testdata: the answers of one release of Redisson, and the state that it
// left in Redis. integration/tools/golden writes it and documents the fields.
type recording struct {
	Redisson string `json:"redisson"`
	Command  string `json:"command"`
	ClientID string `json:"clientID"`
	Limiters []struct {
		Story string         `json:"story"`
		Name  string         `json:"name"`
		Steps []recordedStep `json:"steps"`
	} `json:"limiters"`
}

type recordedStep struct {
	Call string `json:"call"`
	Args struct {
		Permits   int64 `json:"permits"`
		PerClient bool  `json:"perClient"`
		Interval  int64 `json:"interval"`
		KeepAlive int64 `json:"keepAlive"`
		KeepState bool  `json:"keepState"`
	} `json:"args"`
	Now    int64         `json:"now"`
	Reply  string        `json:"reply"`
	Before []recordedKey `json:"before"`
	After  []recordedKey `json:"after"`
}

type recordedKey struct {
	Key     string            `json:"key"`
	Hash    map[string]string `json:"hash"`
	String  *string           `json:"string"`
	Grants  []recordedGrant   `json:"grants"`
	Seconds int64             `json:"seconds"`
}

type recordedGrant struct {
	Member string `json:"member"`
	Score  int64  `json:"score"`
}

// TestRecording_CallsOfRedisson_LeaveTheSameBytes: this library makes every recorded call on the
// same state at the same time. It returns the same answer and leaves the same keys, to the byte. A
// release of Redisson for each size of a member wrote the state before.
func TestRecording_CallsOfRedisson_LeaveTheSameBytes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "redisson-*.json"))
	require.NoError(t, err)
	require.Len(t, files, 4, "record them in the folder integration: go run ./tools/golden")
	for _, file := range files {
		text := golden.Text(t, file)
		var r recording
		require.NoError(t, json.Unmarshal([]byte(text), &r), file)
		t.Run("redisson "+r.Redisson, func(t *testing.T) {
			server := miniredis.NewMiniRedis()
			client, err := memredis.Connect(server)
			require.NoError(t, err)
			t.Cleanup(client.Close)
			grants := 0
			for _, l := range r.Limiters {
				for i, step := range l.Steps {
					about := fmt.Sprintf("%s of %q, step %d: %s %+v; recorded by: %s", l.Story, l.Name, i, step.Call, step.Args,
						r.Command)
					server.FlushAll()
					now := time.UnixMilli(step.Now)
					server.SetTime(now)
					load(t, server, step.Before)
					c := rratelimiter.New(client,
						rratelimiter.WithClientID(uuid.MustParse(r.ClientID)),
						rratelimiter.WithClock(func() time.Time { return now }))
					require.Equal(t, step.Reply, call(t, c.Limiter(l.Name), step), about)
					grants += compare(t, l.Name, step, dump(t, server), about)
				}
			}
			require.Greater(t, grants, 40, "too few grants were compared")
		})
	}
}

// load writes the state that Redisson left before the call.
func load(t *testing.T, server *miniredis.Miniredis, keys []recordedKey) {
	for _, k := range keys {
		for field, value := range k.Hash {
			server.HSet(k.Key, field, value)
		}
		if k.String != nil {
			require.NoError(t, server.Set(k.Key, *k.String))
		}
		for _, g := range k.Grants {
			_, err := server.ZAdd(k.Key, float64(g.Score), unhex(t, g.Member))
			require.NoError(t, err)
		}
		if k.Seconds > 0 {
			server.SetTTL(k.Key, time.Duration(k.Seconds)*time.Second)
		}
	}
}

// dump reads the whole state.
func dump(t *testing.T, server *miniredis.Miniredis) (all []recordedKey) {
	for _, key := range server.Keys() {
		if strings.Contains(key, ":waiters:") {
			continue // of callers that wait in Go; Redisson has no such key
		}
		k := recordedKey{Key: key, Seconds: int64(server.TTL(key).Round(time.Second) / time.Second)}
		switch server.Type(key) {
		case "hash":
			fields, err := server.HKeys(key)
			require.NoError(t, err)
			k.Hash = make(map[string]string)
			for _, field := range fields {
				k.Hash[field] = server.HGet(key, field)
			}
		case "string":
			text, err := server.Get(key)
			require.NoError(t, err)
			k.String = &text
		case "zset":
			members, err := server.SortedSet(key)
			require.NoError(t, err)
			for member, score := range members {
				k.Grants = append(k.Grants, recordedGrant{hex.EncodeToString([]byte(member)), int64(score)})
			}
		}
		all = append(all, k)
	}
	return all
}

// call makes a recorded call and returns its answer as the recording has it.
func call(t *testing.T, l *rratelimiter.Limiter, step recordedStep) string {
	ctx, args := context.Background(), step.Args
	rate := rratelimiter.Rate{
		Permits:   args.Permits,
		Interval:  time.Duration(args.Interval) * time.Millisecond,
		KeepAlive: time.Duration(args.KeepAlive) * time.Millisecond,
	}
	if args.PerClient {
		rate.Type = rratelimiter.PerClient
	}
	var keep []rratelimiter.SetRateOption
	if args.KeepState {
		keep = append(keep, rratelimiter.KeepState())
	}
	var reply any = "done"
	var err error
	switch step.Call {
	case "trySetRate":
		reply, err = l.TrySetRate(ctx, rate)
	case "setRate", "setRate(args)":
		err = l.SetRate(ctx, rate, keep...)
	case "updateRate(args)":
		reply, err = l.UpdateRate(ctx, rate, keep...)
	case "getConfig":
		rate, err = l.Config(ctx)
		reply = fmt.Sprintf("%v %d/%v", rate.Type, rate.Permits, rate.Interval)
	case "tryAcquire()", "tryAcquire(permits)":
		reply, err = l.TryAcquire(ctx, cmp.Or(args.Permits, 1))
	case "acquire(permits)":
		err = l.Acquire(ctx, args.Permits)
	case "availablePermits":
		reply, err = l.AvailablePermits(ctx)
	case "delete":
		reply, err = l.Delete(ctx)
	default:
		require.Fail(t, "no such call", step.Call)
	}
	switch {
	case errors.Is(err, rratelimiter.ErrNotInitialized):
		return "not initialized"
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate):
		return "above the rate"
	}
	require.NoError(t, err)
	return fmt.Sprint(reply)
}

// compare compares the state of this library with Redisson's, and returns the number of new grants.
func compare(t *testing.T, name string, step recordedStep, got []recordedKey, about string) (added int) {
	old := make(map[string]bool)
	for _, k := range step.Before {
		for _, g := range k.Grants {
			old[k.Key+g.Member] = true
		}
	}
	want, _ := normalized(t, step.After, old)
	ours, members := normalized(t, got, old)
	config := want[name]
	for key, w := range want {
		written := step.Call == "setRate" || step.Call == "trySetRate" && step.Reply == "true"
		if w.Hash != nil && w.Hash["keepAliveTime"] == "" && written {
			w.Hash["keepAliveTime"] = "0" // releases before 3.38 do not write it
		}
		if config.Hash["type"] == "1" && setsTTL(step) && config.Seconds > 0 && w.Hash == nil {
			// The client's own state keys outlive a limiter that expires, by an interval and a day.
			interval, err := strconv.ParseInt(config.Hash["interval"], 10, 64)
			require.NoError(t, err)
			w.Seconds += interval/1000 + 24*60*60
			want[key] = w
		}
	}
	require.Equal(t, want, ours, about)
	for _, member := range members {
		// The layout of releases since 3.21: a byte of 16, 16 random bytes, the permits.
		require.Len(t, member, 21, about)
		require.Equal(t, byte(16), member[0], about)
	}
	return len(members)
}

// normalized returns the keys by their names, and the new members. In their place, the keys have the
// permits of the new members, which the last four bytes of every layout are: the rest is random.
func normalized(t *testing.T, keys []recordedKey, old map[string]bool) (state map[string]recordedKey, added []string) {
	state = make(map[string]recordedKey)
	for _, k := range keys {
		k.Grants = slices.Clone(k.Grants)
		for i, g := range k.Grants {
			if !old[k.Key+g.Member] {
				member := unhex(t, g.Member)
				added = append(added, member)
				k.Grants[i].Member = "new: " + member[len(member)-4:]
			}
		}
		slices.SortFunc(k.Grants, func(a, b recordedGrant) int {
			return cmp.Or(cmp.Compare(a.Score, b.Score), strings.Compare(a.Member, b.Member))
		})
		state[k.Key] = k
	}
	return state, added
}

// setsTTL reports whether a call sets the TTL of the state.
func setsTTL(step recordedStep) bool {
	takes := []string{"tryAcquire()", "tryAcquire(permits)", "acquire(permits)"}
	return step.Args.KeepState || step.Reply != "above the rate" && slices.Contains(takes, step.Call)
}

func unhex(t *testing.T, text string) string {
	bytes, err := hex.DecodeString(text)
	require.NoError(t, err)
	return string(bytes)
}
