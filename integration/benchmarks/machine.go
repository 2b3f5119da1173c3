package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// machine describes the host of the measurements.
func (b *bench) machine(ctx context.Context) ([]string, error) {
	fields, err := b.server.info(ctx, "server")
	if err != nil {
		return nil, err
	}
	lines := []string{
		fmt.Sprintf("%s, %d processors, %s/%s", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH),
		"Redis " + fields["redis_version"] + " on loopback, without persistence",
		strings.Replace(runtime.Version(), "go", "Go ", 1) + fmt.Sprintf(", GOMAXPROCS %d", runtime.GOMAXPROCS(0)),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return lines, nil
	}
	var versions []string
	for _, module := range info.Deps {
		for _, of := range []string{"rueidis", "rueidislimiter", "redis_rate", "throttled", "go-redisstore", "limiter/v3",
			"go-redis/v9", "x/time"} {
			if strings.Contains(module.Path+"/", "/"+of+"/") {
				versions = append(versions, module.Path+" "+module.Version)
				break
			}
		}
	}
	return append(lines, "Redisson "+redissonVersion+" on "+javaVersion(), strings.Join(versions, ", ")), nil
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return "processor unknown"
}
