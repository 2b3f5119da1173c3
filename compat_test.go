package rratelimiter_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// recording is a file of testdata: the answers of one release of Redisson, and the state that it
// left in Redis. integration/tools/golden writes it and documents the fields.
type recording struct {
	Redisson string `json:"redisson"`
	Anew     string `json:"anew"`
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
		Expiry    int64 `json:"expiry"`
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
// release of Redisson for each layout wrote the state before.
func TestRecording_CallsOfRedisson_LeaveTheSameBytes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "redisson-*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "record them in the folder integration: go run ./tools/golden")
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var r recording
		require.NoError(t, json.Unmarshal(text, &r), path)
		t.Run("redisson "+r.Redisson, func(t *testing.T) {
			server := miniredis.RunT(t)
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true,
				ForceSingleClient: true})
			require.NoError(t, err)
			t.Cleanup(client.Close)
			grants := 0
			for _, l := range r.Limiters {
				for i, step := range l.Steps {
					about := fmt.Sprintf("%s of %q, step %d: %s %+v; recorded by: %s", l.Story, l.Name, i, step.Call, step.Args,
						r.Anew)
					server.FlushAll()
					now := time.UnixMilli(step.Now)
					server.SetTime(now)
					load(t, server, step.Before)
					c := rratelimiter.New(client,
						rratelimiter.WithClientID(uuid.MustParse(r.ClientID)),
						rratelimiter.WithClock(func() time.Time { return now }))
					require.Equal(t, step.Reply, call(t, c.Limiter(l.Name), step), about)
					grants += compare(t, step, dump(t, server), about)
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
func dump(t *testing.T, server *miniredis.Miniredis) []recordedKey {
	all := []recordedKey{}
	for _, key := range server.Keys() {
		k := recordedKey{Key: key, Seconds: int64(server.TTL(key).Round(time.Second) / time.Second)}
		switch kind := server.Type(key); kind {
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
		default:
			require.Fail(t, "unexpected key", "%q is a %s", key, kind)
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
	case "tryAcquire()":
		reply, err = l.TryAcquire(ctx, 1)
	case "tryAcquire(permits)":
		reply, err = l.TryAcquire(ctx, args.Permits)
	case "acquire(permits)":
		err = l.Acquire(ctx, args.Permits)
	case "availablePermits":
		reply, err = l.AvailablePermits(ctx)
	case "expire":
		reply, err = l.Expire(ctx, time.Duration(args.Expiry)*time.Millisecond)
	case "clearExpire":
		reply, err = l.ClearExpire(ctx)
	case "remainTimeToLive":
		reply, err = l.RemainTimeToLive(ctx)
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
func compare(t *testing.T, step recordedStep, got []recordedKey, about string) (grants int) {
	want := slices.Clone(step.After)
	names := func(keys []recordedKey) (names []string) {
		for _, k := range keys {
			names = append(names, k.Key)
		}
		sort.Strings(names)
		return names
	}
	require.Equal(t, names(want), names(got), about)
	old := make(map[string]bool)
	for _, k := range step.Before {
		for _, g := range k.Grants {
			old[k.Key+g.Member] = true
		}
	}
	expires := slices.ContainsFunc(want, func(k recordedKey) bool { return k.Hash != nil && k.Seconds > 0 })
	for _, w := range want {
		g := got[slices.IndexFunc(got, func(k recordedKey) bool { return k.Key == w.Key })]
		require.Equal(t, fieldsOfToday(w.Hash, step), g.Hash, about)
		require.Equal(t, w.String, g.String, "%s: %q", about, w.Key)
		seconds := w.Seconds
		if ownPair(step) && expires && w.Hash == nil {
			// The client's own state keys outlive a limiter that expires, by an interval and a day.
			seconds += intervalOf(step)/1000 + 24*60*60
		}
		require.Equal(t, seconds, g.Seconds, "%s: seconds that %q has to live", about, w.Key)

		wantOld, wantNew := split(w, old)
		gotOld, gotNew := split(g, old)
		require.Equal(t, wantOld, gotOld, "%s: the grants that were there", about)
		require.Len(t, gotNew, len(wantNew), about)
		for i := range wantNew {
			require.Equal(t, wantNew[i].Score, gotNew[i].Score, about)
			recorded, ours := unhex(t, wantNew[i].Member), unhex(t, gotNew[i].Member)
			// The last four bytes of every layout are the permits. This library uses the layout of
			// releases since 3.21: a byte of 16, 16 random bytes, the permits.
			require.Equal(t, recorded[len(recorded)-4:], ours[len(ours)-4:], about)
			require.Len(t, ours, 21, about)
			require.Equal(t, byte(16), ours[0], about)
			if len(recorded) == len(ours) {
				require.Equal(t, recorded[0], ours[0], about)
			}
			grants++
		}
	}
	return grants
}

// fieldsOfToday adds the fields that this library writes and releases before 3.38 did not.
func fieldsOfToday(hash map[string]string, step recordedStep) map[string]string {
	if hash == nil || hash["keepAliveTime"] != "" {
		return hash
	}
	if step.Call == "setRate" || step.Call == "trySetRate" && step.Reply == "true" {
		hash = maps.Clone(hash)
		hash["keepAliveTime"] = "0"
	}
	return hash
}

// ownPair reports whether a call sets the TTL of the client's own state keys.
func ownPair(step recordedStep) bool {
	takes := step.Reply != "above the rate" && slices.Contains([]string{"tryAcquire()", "tryAcquire(permits)",
		"acquire(permits)", "expire"}, step.Call)
	keeps := step.Args.KeepState
	return (takes || keeps) && typeOf(step) == "1"
}

func typeOf(step recordedStep) string {
	for _, k := range step.After {
		if k.Hash != nil {
			return k.Hash["type"]
		}
	}
	return ""
}

func intervalOf(step recordedStep) (ms int64) {
	for _, k := range step.After {
		if k.Hash != nil {
			_, _ = fmt.Sscan(k.Hash["interval"], &ms)
		}
	}
	return ms
}

// split separates the grants that existed before a call from the new ones, both in the order of the
// set.
func split(k recordedKey, old map[string]bool) (before, added []recordedGrant) {
	for _, g := range k.Grants {
		if old[k.Key+g.Member] {
			before = append(before, g)
		} else {
			added = append(added, g)
		}
	}
	for _, grants := range [][]recordedGrant{before, added} {
		slices.SortFunc(grants, func(a, b recordedGrant) int {
			if a.Score != b.Score {
				return int(a.Score - b.Score)
			}
			return slices.Compare([]byte(a.Member), []byte(b.Member))
		})
	}
	return before, added
}

func unhex(t *testing.T, text string) string {
	bytes, err := hex.DecodeString(text)
	require.NoError(t, err)
	return string(bytes)
}

func TestRecordings_Releases_CoverEveryLayout(t *testing.T) {
	for version, random := range map[string]struct{ prefix, length int }{
		"3.16.3": {0, 4}, "3.16.8": {8, 8}, "3.20.1": {1, 8}, "3.21.3": {1, 16}, "3.38.1": {1, 16}, "4.7.0": {1, 16},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", "redisson-"+version+".json"))
		require.NoError(t, err)
		var r recording
		require.NoError(t, json.Unmarshal(text, &r))
		require.Equal(t, version, r.Redisson)
		seen := 0
		for _, l := range r.Limiters {
			for _, step := range l.Steps {
				for _, k := range step.After {
					for _, g := range k.Grants {
						member := []byte(unhex(t, g.Member))
						require.Len(t, member, random.prefix+random.length+4, version)
						switch random.prefix {
						case 1:
							require.EqualValues(t, random.length, member[0])
						case 8:
							require.EqualValues(t, random.length, binary.LittleEndian.Uint64(member))
						}
						seen++
					}
				}
			}
		}
		require.Greater(t, seen, 100, version)
	}
}
