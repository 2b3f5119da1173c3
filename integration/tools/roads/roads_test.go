package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// ceilings are the most functions and files that a road may have.
var ceilings = []struct {
	road             string
	functions, files int
}{
	{"Keyed.TryAcquire", 26, 7},
	{"Limiter.TryAcquire", 28, 9},
	{"Keyed.TryAcquire, context that ends", 31, 7},
	{"Acquire, which waits", 79, 13},
	{"httplimit.Middleware(Each), a request", 100, 19},
	{"rules, a reload", 93, 18},
	{"rules, a file compiled for a middleware", 54, 21},
	{"rules, a request", 121, 25},
}

// The most stack that a lone call uses until it reaches the Redis client.
const (
	mostBytes  = 2000
	mostFrames = 10
)

// make roads prints the tables. ROADS=Middleware also lists the functions of the roads with that in
// their name.
func TestRoads_EachRoad_IsBelowItsCeiling(t *testing.T) {
	roads := shortestRoads(t)
	fmt.Printf("%-38s functions   at most   files   at most\n", "")
	for i, r := range roads {
		c := ceilings[i]
		require.Equal(t, c.road, r.Name)
		fmt.Printf("%-38s %9d %9d %7d %9d\n", r.Name, len(r.Functions), c.functions, r.files(), c.files)
		slices.Sort(r.Functions)
		list := strings.Join(r.Functions, "\n   ")
		if name := os.Getenv("ROADS"); name != "" && strings.Contains(r.Name, name) {
			fmt.Println("   " + list)
		}
		assert.LessOrEqual(t, len(r.Functions), c.functions, "%s:\n   %s", r.Name, list)
		assert.LessOrEqual(t, r.files(), c.files, r.Name)
		assert.NotZero(t, r.files(), r.Name)
	}
}

// shortestRoads measures the roads up to three times, until none is above its ceiling. It returns the shortest ones: on
// a busy machine a slow reply adds functions to the calls that follow.
func shortestRoads(t *testing.T) (shortest []road) {
	for range 3 {
		roads, above := roadsOf(t), false
		require.Len(t, roads, len(ceilings))
		if shortest == nil {
			shortest = roads
		}
		for i, r := range roads {
			if len(r.Functions) < len(shortest[i].Functions) {
				shortest[i] = r
			}
			above = above || len(shortest[i].Functions) > ceilings[i].functions
		}
		if !above {
			break
		}
	}
	return shortest
}

// roadsOf runs the program of this folder, which measures the roads.
func roadsOf(t *testing.T) (roads []road) {
	command := exec.Command("go", "run", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", ".")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	command.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir())
	out, err := command.Output()
	require.NoError(t, err, stderr.String())
	require.NoError(t, json.Unmarshal(out, &roads))
	return roads
}

// files returns how many files the functions are in.
func (r road) files() int {
	files := make(map[string]bool)
	for _, f := range r.Functions {
		file, _, _ := strings.Cut(f, " ")
		files[file] = true
	}
	return len(files)
}

// spy notes how deep the stack is when a call reaches the Redis client.
type spy struct {
	rueidis.Client
	depth *depth
}

type depth struct {
	top    uintptr // the address of a variable at the top of the goroutine
	bytes  uintptr
	frames int
}

//go:noinline
func (s spy) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	var here byte
	s.depth.bytes = s.depth.top - uintptr(unsafe.Pointer(&here))
	s.depth.frames = s.depth.count()
	return s.Client.Do(ctx, command)
}

// count returns the frames without its own, that of Do, and those of the goroutine.
//
//go:noinline
func (d *depth) count() int {
	pcs := make([]uintptr, 200)
	return runtime.Callers(3, pcs) - 3
}

// call makes a call on a goroutine whose stack has grown, so that it does not move.
func (d *depth) call(t *testing.T, take func(ctx context.Context) (bool, error)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		growStack()
		var top byte
		d.top = uintptr(unsafe.Pointer(&top))
		granted, err := take(context.Background())
		assert.NoError(t, err)
		assert.True(t, granted)
	}()
	<-done
}

//go:noinline
func growStack() {
	var space [64 << 10]byte
	runtime.KeepAlive(&space)
}

func TestStack_LoneCall_IsBelowItsCeiling(t *testing.T) {
	server := miniredis.RunT(t)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer redis.Close()
	var d depth
	client := rratelimiter.New(spy{redis, &d})
	keyed := limit.NewKeyed(client, "keyed", limit.FixedWindow{Permits: 1 << 30, Interval: time.Minute})
	rate := rratelimiter.Rate{Permits: 1 << 30, Interval: time.Minute}
	limiter := client.Limiter("limiter", rratelimiter.InitialRate(rate))
	fmt.Printf("%-38s bytes of stack   at most   frames   at most\n", "")
	for name, take := range map[string]func(ctx context.Context) (bool, error){
		"Keyed.TryAcquire":   func(ctx context.Context) (bool, error) { return keyed.TryAcquire(ctx, "user", 1) },
		"Limiter.TryAcquire": func(ctx context.Context) (bool, error) { return limiter.TryAcquire(ctx, 1) },
	} {
		d.call(t, take) // the first call sends the script
		d = depth{}
		d.call(t, take)
		fmt.Printf("%-38s %14d %9d %8d %9d\n", name, d.bytes, mostBytes, d.frames, mostFrames)
		assert.Positive(t, d.frames, name)
		assert.LessOrEqual(t, d.bytes, uintptr(mostBytes), name)
		assert.LessOrEqual(t, d.frames, mostFrames, name)
	}
}
