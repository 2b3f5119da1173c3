package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// costs are the parts of a decision's processor time, in microseconds, on the client and on the
// server.
type costs struct {
	callers        int
	rate           float64
	client, server []cost
	clientBusy     float64 // processors
	serverBusy     float64
}

type cost struct {
	what string
	us   float64
}

// clientParts maps functions to parts of the client's work. A function without a part belongs to
// its caller's.
var clientParts = []struct {
	what     string
	prefixes []string
}{
	{"system calls",
		[]string{"syscall.", "internal/runtime/syscall", "runtime/internal/syscall", "internal/poll.", "net.",
			"runtime.netpoll", "runtime.epoll"}},
	{"Go's scheduler: parking and waking", []string{
		"runtime.futex", "runtime.schedule", "runtime.findRunnable", "runtime.findrunnable", "runtime.park", "runtime.gopark",
		"runtime.goready", "runtime.ready", "runtime.wakep", "runtime.mcall", "runtime.gosched", "runtime.Gosched",
		"runtime.chan",
		"runtime.selectgo", "runtime.sel", "runtime.send", "runtime.recv", "runtime.lock", "runtime.unlock", "runtime.run",
		"runtime.steal",
		"runtime.notesleep", "runtime.notewakeup", "runtime.stopm", "runtime.startm", "runtime.execute",
		"runtime.casgstatus", "runtime.gogo",
		"runtime.goexit", "runtime.newproc", "runtime.usleep", "runtime.osyield", "runtime.procyield", "runtime.globrunq",
		"runtime.checkTimers",
		"runtime.sema", "runtime.acquireSudog", "runtime.releaseSudog", "runtime.(*timers)", "sync.", "internal/sync.",
	}},
	{"memory and garbage collection",
		[]string{"runtime.malloc", "runtime.gc", "runtime.scan", "runtime.(*mcache)", "runtime.(*mspan)",
			"runtime.(*mheap)", "runtime.bgsweep", "runtime.sweep", "runtime.newobject", "runtime.growslice",
			"runtime.makeslice"}},
	{"the clock", []string{"time.now", "time.Now", "time.Since", "runtime.nanotime", "runtime.vdso"}},
	{"rueidis", []string{"github.com/redis/rueidis"}},
	{"this library", []string{"github.com/rratelimiter/rratelimiter.", "github.com/rratelimiter/rratelimiter/internal/"}},
	{"the benchmark", []string{"main.", "math/rand"}},
}

// costs profiles this library while it is granted permits by so many callers.
func (b *bench) costs(ctx context.Context, callers int) (costs, error) {
	c := costs{callers: callers}
	l := load{addr: b.redis.Addr(), callers: callers, names: names(1), maxPermits: 1, limit: generous, expect: allGranted}
	if err := b.server.clear(ctx); err != nil {
		return c, err
	}
	session, err := openOurs(ctx, b, l)
	if session != nil {
		defer session.close()
	}
	if err != nil {
		return c, err
	}
	var before, after usage
	var data bytes.Buffer
	began := func() error {
		if before, err = b.server.usage(ctx); err != nil {
			return err
		}
		return pprof.StartCPUProfile(&data)
	}
	ended := func() error {
		pprof.StopCPUProfile()
		after, err = b.server.usage(ctx)
		return err
	}
	t, err := drive(ctx, session, l, b.warmup, max(b.length, time.Second), began, ended)
	if err != nil {
		return c, err
	}
	if t.failed > 0 || t.granted != t.decisions {
		return c, fmt.Errorf("%d of %d decisions granted, %d errors (%w)", t.granted, t.decisions, t.failed, t.err)
	}
	n := float64(t.decisions)
	c.rate = n / t.elapsed.Seconds()
	c.clientBusy = t.clientCPU.Seconds() / t.elapsed.Seconds()
	c.serverBusy = (after.cpu - before.cpu).Seconds() / t.elapsed.Seconds()
	c.server = serverCosts(before, after, n)
	p, err := profile.Parse(&data)
	if err != nil {
		return c, err
	}
	c.client = clientCosts(p, float64(t.clientCPU.Microseconds())/n)
	return c, nil
}

// serverCosts splits the server's time as Redis counts it: scripts, and the commands within them.
func serverCosts(before, after usage, decisions float64) []cost {
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / decisions }
	script := after.commands["evalsha"].time - before.commands["evalsha"].time
	var inside []cost
	commands := time.Duration(0)
	for name, is := range after.commands {
		took := is.time - before.commands[name].time
		if took > 0 && name != "evalsha" && name != "info" {
			commands += took
			inside = append(inside, cost{strings.ToUpper(name) + " in the script", per(took)})
		}
	}
	slices.SortFunc(inside, byCost)
	return append([]cost{
		{"network and event loop", per(after.cpu - before.cpu - script)},
		{"the script's own Lua", per(script - commands)},
	}, inside...)
}

func byCost(a, b cost) int {
	if a.us != b.us {
		if a.us > b.us {
			return -1
		}
		return 1
	}
	return strings.Compare(a.what, b.what)
}

// clientCosts splits the client's time by the part that each sample of the profile lies in.
func clientCosts(p *profile.Profile, perDecision float64) []cost {
	samples := make(map[string]int64)
	var all int64
	for _, s := range p.Sample {
		n := s.Value[len(s.Value)-1]
		all += n
		samples[partOf(s)] += n
	}
	var parts []cost
	for what, n := range samples {
		parts = append(parts, cost{what, perDecision * float64(n) / float64(all)})
	}
	slices.SortFunc(parts, byCost)
	return parts
}

func partOf(s *profile.Sample) string {
	for _, location := range s.Location {
		for _, line := range location.Line {
			for _, part := range clientParts {
				for _, prefix := range part.prefixes {
					if strings.HasPrefix(line.Function.Name, prefix) {
						return part.what
					}
				}
			}
		}
	}
	return "else"
}

func (c costs) table() string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s, %s decisions a second; the client keeps %.2f processors busy, the server %.2f.\n\n",
		callersText(c.callers), thousands(c.rate), c.clientBusy, c.serverBusy)
	t.WriteString("| client | us a decision | server | us a decision |\n| --- | --: | --- | --: |\n")
	for i := range max(len(c.client), len(c.server)) {
		left, right := "| |", " | |"
		if i < len(c.client) {
			left = fmt.Sprintf("| %s | %s |", c.client[i].what, short(c.client[i].us))
		}
		if i < len(c.server) {
			right = fmt.Sprintf(" %s | %s |", c.server[i].what, short(c.server[i].us))
		}
		t.WriteString(left + right + "\n")
	}
	return t.String()
}
