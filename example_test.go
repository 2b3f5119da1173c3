package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// connect opens an in-memory Redis, in place of
//
//	rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
func connect() (rueidis.Client, func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true,
		DisableCache: true})
	if err != nil {
		panic(err)
	}
	return redis, func() { redis.Close(); server.Close() }
}

// The lines of the README.
func quota(ctx context.Context, redis rueidis.Client) error {
	limiter := rratelimiter.New(redis).Limiter("paid-api") // the same limiter as redisson.getRateLimiter("paid-api")
	if _, err := limiter.TrySetRate(ctx, rratelimiter.Rate{Permits: 3, Interval: time.Minute}); err != nil {
		return err
	}
	for range 4 {
		allowed, err := limiter.TryAcquire(ctx, 1) // never waits; Acquire waits until permits are free
		if err != nil {
			return err
		}
		fmt.Println(allowed)
	}
	return nil
}

func Example() {
	redis, closeRedis := connect()
	defer closeRedis()
	if err := quota(context.Background(), redis); err != nil {
		panic(err)
	}
	// Output:
	// true
	// true
	// true
	// false
}

func ExampleLimiter_Take() {
	redis, closeRedis := connect()
	defer closeRedis()
	ctx := context.Background()

	limiter := rratelimiter.New(redis).Limiter("logins:{alice}")
	rate := rratelimiter.Rate{Permits: 5, Interval: time.Minute, KeepAlive: time.Hour}
	if err := limiter.SetRate(ctx, rate); err != nil {
		panic(err)
	}
	decision, err := limiter.Take(ctx, 5)
	if err != nil {
		panic(err)
	}
	fmt.Println(decision.Allowed, decision.Remaining, "of", decision.Limit)
	decision, err = limiter.Take(ctx, 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(decision.Allowed, "retry after", decision.RetryAfter.Round(time.Minute))
	// Output:
	// true 0 of 5
	// false retry after 1m0s
}

// A worker takes as many permits as are free, and works on as many items.
func ExampleLimiter_TakeUpTo() {
	redis, closeRedis := connect()
	defer closeRedis()
	ctx := context.Background()

	limiter := rratelimiter.New(redis).Limiter("emails")
	if err := limiter.SetRate(ctx, rratelimiter.Rate{Permits: 100, Interval: time.Hour}); err != nil {
		panic(err)
	}
	for range 3 {
		batch, decision, err := limiter.TakeUpTo(ctx, 60)
		if err != nil {
			panic(err)
		}
		fmt.Println(batch, decision.Remaining)
	}
	// Output:
	// 60 40
	// 40 0
	// 0 0
}

func ExampleLimiter_Acquire() {
	redis, closeRedis := connect()
	defer closeRedis()

	limiter := rratelimiter.New(redis).Limiter("batch")
	if err := limiter.SetRate(context.Background(), rratelimiter.Rate{Permits: 1, Interval: time.Hour}); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(limiter.Acquire(ctx, 1))
	// The next permit is an hour away, and the context has a minute: that fails at once.
	fmt.Println(errors.Is(limiter.Acquire(ctx, 1), context.DeadlineExceeded))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_UpdateRate() {
	redis, closeRedis := connect()
	defer closeRedis()
	ctx := context.Background()

	limiter := rratelimiter.New(redis).Limiter("quota")
	if err := limiter.SetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Hour}); err != nil {
		panic(err)
	}
	if err := limiter.Acquire(ctx, 8); err != nil {
		panic(err)
	}
	updated, err := limiter.UpdateRate(ctx, rratelimiter.Rate{Permits: 20, Interval: time.Hour}, rratelimiter.KeepState())
	if err != nil {
		panic(err)
	}
	free, err := limiter.AvailablePermits(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(updated, free)
	// Output: true 12
}

func ExampleWithObserver() {
	redis, closeRedis := connect()
	defer closeRedis()
	ctx := context.Background()

	client := rratelimiter.New(redis, rratelimiter.WithObserver(&rratelimiter.Observer{
		Decision: func(_ context.Context, d rratelimiter.DecisionInfo) {
			fmt.Printf("%d of %s: granted %v by %s\n", d.Permits, d.Name, d.Granted, d.Source)
		},
		RedisCall: func(_ context.Context, c rratelimiter.RedisCallInfo) {
			fmt.Printf("a call with %d request for %d permits: %v\n", c.Requests, c.Permits, c.Err)
		},
		Waiting: func(_ context.Context, w rratelimiter.WaitingInfo) {
			fmt.Println("waiting:", w.Length)
		},
	}))
	limiter := client.Limiter("mail")
	if err := limiter.SetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Hour}); err != nil {
		panic(err)
	}
	if _, err := limiter.TryAcquire(ctx, 4); err != nil {
		panic(err)
	}
	if err := limiter.Acquire(ctx, 2); err != nil {
		panic(err)
	}
	// Output:
	// a call with 1 request for 4 permits: <nil>
	// 4 of mail: granted true by redis
	// waiting: 1
	// a call with 1 request for 2 permits: <nil>
	// waiting: 0
	// 2 of mail: granted true by redis
}

// TestDocumentation_Readme_ShowsTheExample: each line of its Go code runs in example_test.go.
func TestDocumentation_Readme_ShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "```")
	_, code, found = strings.Cut(code, "}\n") // that file shows in a comment how to connect
	require.True(t, found)
	for line := range strings.Lines(code) {
		assert.Contains(t, string(example), strings.TrimSpace(line))
	}
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocumentation_LocalLinks_Resolve: each link of a page to a file or a heading of the
// repository.
func TestDocumentation_LocalLinks_Resolve(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	examples, err := filepath.Glob("examples/*/README.md")
	require.NoError(t, err)
	links := 0
	for _, page := range slices.Concat(pages, examples, []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			link := match[1]
			if strings.Contains(link, "://") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(link, "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); !assert.NoError(t, err, "%s links to %s", page, link) || anchor == "" {
				continue
			}
			linked, err := os.ReadFile(target)
			require.NoError(t, err)
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(string(linked), -1) {
				name := notInAnchor.ReplaceAllString(strings.ToLower(h[1]), "")
				anchors = append(anchors, strings.ReplaceAll(name, " ", "-"))
			}
			assert.Contains(t, anchors, anchor, "%s links to %s", page, link)
		}
	}
	assert.Greater(t, links, 30)
}

var (
	codeFile = regexp.MustCompile("`([\\w./-]+\\.(?:go|lua))`")
	testName = regexp.MustCompile("`(Test\\w+)`")
)

// TestDocumentation_FilesAndTests_Exist: each source file that the architecture page names, and
// each test that a page names.
func TestDocumentation_FilesAndTests_Exist(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	require.NoError(t, err)
	for _, file := range codeFile.FindAllStringSubmatch(string(page), -1) {
		assert.FileExists(t, file[1])
	}
	tests := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, test := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[test[1]] = true
		}
		return err
	}))
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, test := range testName.FindAllStringSubmatch(string(text), -1) {
			known := tests[test[1]] || slices.ContainsFunc(slices.Collect(maps.Keys(tests)), func(name string) bool {
				return strings.HasPrefix(name, test[1]+"_")
			})
			assert.True(t, known, "%s names %s", page, test[1])
		}
	}
}
