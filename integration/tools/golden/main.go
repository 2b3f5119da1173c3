// Command golden records the replies of real Redisson and its state in Redis, call by call, as
// files in testdata in the root of the project. compat_test.go there replays them with this
// library. Run it in the folder integration:
//
//	go run ./tools/golden
package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// layouts are the releases that are recorded: one for each way in which Redisson has written a grant
// or a configuration since 3.17.
const layouts = "3.20.1,3.21.3,3.38.1,4.7.0"

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", filepath.Join("..", "testdata"), "where the files go")
	versions := flag.String("versions", layouts, "the releases of Redisson to record")
	flag.Parse()
	if err := recordAll(context.Background(), *dir, strings.Split(*versions, ",")); err != nil {
		log.Fatal(err)
	}
}

func recordAll(ctx context.Context, dir string, versions []string) (err error) {
	server, err := servers.OpenSingle(ctx)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, server.Close()) }()
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true,
		DisableCache: true})
	if err != nil {
		return err
	}
	defer redis.Close()
	for _, version := range versions {
		file, err := record(ctx, redis, server.Addr(), version)
		if err != nil {
			return fmt.Errorf("redisson %s: %w", version, err)
		}
		text, err := json.MarshalIndent(file, "", " ")
		if err != nil {
			return err
		}
		path := filepath.Join(dir, "redisson-"+version+".json")
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			return err
		}
		log.Printf("%s: %d limiters", path, len(file.Limiters))
	}
	return nil
}

// File is what one release of Redisson did.
type File struct {
	Redisson string    `json:"redisson"`
	Command  string    `json:"command"` // the command that records this file again
	ClientID string    `json:"clientID"`
	Limiters []Limiter `json:"limiters"`
}

// Limiter is what happened to one limiter, step by step. The state before a step is that after the
// step before, grown older.
type Limiter struct {
	Story string `json:"story"`
	Name  string `json:"name"`
	Steps []Step `json:"steps"`
}

// Step is a call that Redisson made, its answer, and all keys of the limiter before and after.
type Step struct {
	Call   string `json:"call"`
	Args   Args   `json:"args"`
	Now    int64  `json:"now"` // the clock of the call, Unix milliseconds
	Reply  string `json:"reply"`
	Before []Key  `json:"before"`
	After  []Key  `json:"after"`
}

// Args are the arguments of a call, times in milliseconds. Those that the call does not have are
// left out.
type Args struct {
	Permits   int64 `json:"permits,omitempty"`
	PerClient bool  `json:"perClient,omitempty"`
	Interval  int64 `json:"interval,omitempty"`
	KeepAlive int64 `json:"keepAlive,omitempty"`
	KeepState bool  `json:"keepState,omitempty"`
}

// Key is one key and all that it holds.
type Key struct {
	Key     string            `json:"key"`
	Hash    map[string]string `json:"hash,omitempty"`
	String  *string           `json:"string,omitempty"`
	Grants  []Grant           `json:"grants,omitempty"`
	Seconds int64             `json:"seconds,omitempty"` // to live, rounded up; absent where it lives for ever
}

// Grant is one member of a permits set.
type Grant struct {
	Member string `json:"member"` // in hex
	Score  int64  `json:"score"`
}

func record(ctx context.Context, redis rueidis.Client, addr, version string) (*File, error) {
	java, err := oracle.Open(ctx, version, oracle.Single(addr))
	if err != nil {
		return nil, err
	}
	defer java.Close()
	file := &File{Redisson: version,
		Command: "go run ./tools/golden -versions " + version + " (in the folder integration)", ClientID: java.ID()}
	for _, s := range stories {
		for _, name := range s.names {
			for _, client := range []bool{false, true} {
				if err := redis.Do(ctx, redis.B().Flushall().Build()).Error(); err != nil {
					return nil, err
				}
				l, err := s.record(ctx, redis, java, name, client)
				if err != nil {
					return nil, fmt.Errorf("%s, %q: %w", s.name, name, err)
				}
				file.Limiters = append(file.Limiters, l)
			}
		}
	}
	return file, nil
}

func (s story) record(ctx context.Context, redis rueidis.Client, java *oracle.Redisson, name string,
	client bool) (Limiter, error) {
	l := Limiter{Story: s.name, Name: name}
	side, keys := calls.Java(java.Limiter(name)), state.KeysOf(name, java.ID())
	for _, st := range s.steps {
		if err := state.Age(ctx, redis, keys, st.later); err != nil {
			return l, err
		}
		if st.oldest != "" && !calls.AtLeast(java.Version(), st.oldest) {
			continue
		}
		call := st.call
		call.PerClient = client && call.Interval > 0
		before, err := dump(ctx, redis)
		if err != nil {
			return l, err
		}
		now := time.Now().UnixMilli()
		reply, err := side.Do(ctx, call)
		if err != nil {
			return l, err
		}
		after, err := dump(ctx, redis)
		if err != nil {
			return l, err
		}
		if reply == "true" || reply == calls.Done {
			now = max(now, newest(after))
		}
		l.Steps = append(l.Steps, Step{
			Call: string(call.Op), Now: now, Reply: string(reply), Before: before, After: after,
			Args: Args{
				Permits: call.Permits, PerClient: call.PerClient, Interval: call.Interval.Milliseconds(),
				KeepAlive: call.KeepAlive.Milliseconds(), KeepState: call.KeepState,
			},
		})
	}
	return l, nil
}

// dump reads the whole database, which holds one limiter.
func dump(ctx context.Context, redis rueidis.Client) ([]Key, error) {
	names, err := redis.Do(ctx, redis.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	all := []Key{}
	for _, name := range names {
		k := Key{Key: name}
		kind, err := redis.Do(ctx, redis.B().Type().Key(name).Build()).ToString()
		if err != nil {
			return nil, err
		}
		switch kind {
		case "hash":
			k.Hash, err = redis.Do(ctx, redis.B().Hgetall().Key(name).Build()).AsStrMap()
		case "string":
			var text string
			text, err = redis.Do(ctx, redis.B().Get().Key(name).Build()).ToString()
			k.String = &text
		case "zset":
			var members []rueidis.ZScore
			members, err = redis.Do(ctx,
				redis.B().Zrange().Key(name).Min("0").Max("-1").Withscores().Build()).AsZScores()
			for _, m := range members {
				k.Grants = append(k.Grants, Grant{Member: hex.EncodeToString([]byte(m.Member)), Score: int64(m.Score)})
			}
		default:
			err = fmt.Errorf("%q is a %s", name, kind)
		}
		if err != nil {
			return nil, err
		}
		ttl, err := redis.Do(ctx, redis.B().Pttl().Key(name).Build()).AsInt64()
		if err != nil {
			return nil, err
		}
		if ttl > 0 {
			k.Seconds = (ttl + 999) / 1000
		}
		all = append(all, k)
	}
	return all, nil
}

func newest(keys []Key) int64 {
	var score int64
	for _, k := range keys {
		for _, g := range k.Grants {
			score = max(score, g.Score)
		}
	}
	return score
}
