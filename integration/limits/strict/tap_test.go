package strict_test

import (
	"cmp"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"
	"github.com/stretchr/testify/require"
)

// grant is a granted request. It counts at some time from lo to hi, which are equal on the server's
// clock.
type grant struct {
	lo, hi  int64 // Unix microseconds
	permits int64
	limit   int64 // the first argument of the first policy, if it is a whole number: permits, capacity or pace
}

// tap is a Redis client that records the replies of Redis to limiters.
type tap struct {
	rueidis.Client
	t     testing.TB
	clock func() time.Time // the limiters'; nil if it is the server's

	mu     sync.Mutex
	timed  map[string]string // by the digest of a script, that of the script with its time
	grants []grant
	errs   []error
}

func (c *tap) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	return c.DoMulti(ctx, command)[0]
}

func (c *tap) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	words := make([][]string, len(commands))
	for i, command := range commands {
		words[i] = slices.Clone(command.Commands()) // which go back into a pool
		if c.clock == nil && arguments(words[i]) != nil {
			commands[i] = c.B().Arbitrary(c.withTime(words[i])...).Build()
		}
	}
	results := c.Client.DoMulti(ctx, commands...)
	for i, result := range results {
		var now string
		if reply, err := result.ToArray(); err == nil && c.clock == nil && arguments(words[i]) != nil {
			now, err = reply[0].ToString()
			require.NoError(c.t, err)
			results[i] = mock.Result(reply[1])
		}
		c.see(words[i], now, results[i])
	}
	return results
}

// timedScript runs a script and returns the time that it read, Unix microseconds, with its reply.
const timedScript = `
local time, server = '', redis
local redis = setmetatable({call = function(...)
  local reply = server.call(...)
  if (...) == 'TIME' then
    time = string.format('%%d', reply[1] * 1000000 + reply[2])
  end
  return reply
end}, {__index = server})
local function script()
%s
end
local reply = script()
return {time, reply}`

// withTime returns a call of a script that returns its time, too.
func (c *tap) withTime(words []string) []string {
	words = slices.Clone(words)
	c.mu.Lock()
	defer c.mu.Unlock()
	if words[0] == "EVALSHA" {
		words[1] = cmp.Or(c.timed[words[1]], words[1])
		return words
	}
	digest := fmt.Sprintf("%x", sha1.Sum([]byte(words[1])))
	words[1] = fmt.Sprintf(timedScript, words[1])
	c.timed[digest] = fmt.Sprintf("%x", sha1.Sum([]byte(words[1])))
	return words
}

// arguments returns those of a script: EVALSHA, digest, n, n keys, arguments.
func arguments(words []string) []string {
	if words[0] != "EVALSHA" && words[0] != "EVAL" {
		return nil
	}
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		return nil
	}
	return words[3+keys:]
}

// see records the grants of a call. now is the time that its script read, "" for the time in its
// first argument.
func (c *tap) see(words []string, now string, result rueidis.RedisResult) {
	args := arguments(words)
	if len(args) == 0 { // Reset has none
		return
	}
	if refused, ok := rueidis.IsRedisErr(result.Error()); ok && refused.IsNoScript() {
		return // it is sent with its text
	}
	now = cmp.Or(now, args[0])
	var err error
	switch {
	case len(args) == 1 || args[1] == "": // a count of the permits of a Redisson limiter
	case isMember(args[1]):
		err = errors.New("a joined limiter of Redisson's takes permits by itself")
	case strings.Contains(args[1], "<"):
		err = c.reserved(args, now, result)
	default:
		err = c.taken(args, now, result)
	}
	if err != nil {
		c.mu.Lock()
		c.errs = append(c.errs, fmt.Errorf("%.200q: %w", words, err))
		c.mu.Unlock()
	}
}

// requested matches the requests of a call that has several or wants a full reply.
var requested = regexp.MustCompile(`^\d+\*\d+( \d+\*\d+)*$`)

// isMember reports whether a text is the member of a grant of a limiter of Redisson's.
func isMember(text string) bool { return len(text) == 1+16+4 && text[0] == 16 }

// taken reads a call that takes permits. Args: the time, permits in all, an epoch, those of the
// policies; and mostly requests, letters.
func (c *tap) taken(args []string, now string, result rueidis.RedisResult) error {
	all := args[1] + "*1"
	if text := args[len(args)-2]; requested.MatchString(text) {
		all = text
	}
	requests, err := runs(all)
	if err != nil {
		return err
	}
	message, err := result.ToMessage()
	if err != nil {
		return err
	}
	if message.IsInt64() {
		return nil // -1: none was granted
	}
	letters := "*"
	if reply, err := message.ToArray(); err == nil && !reply[0].IsString() {
		if kind, err := reply[0].AsInt64(); err != nil || kind != 0 {
			return err // it is called again
		}
		if letters, err = reply[1].ToString(); err != nil {
			return err
		}
	}
	for i, permits := range requests {
		if letters == "*" || letters[i] == 'g' {
			if err := c.note(now, 0, permits, args[3]); err != nil {
				return err
			}
		}
	}
	return nil
}

// reserved reads a call that reserves. Args: the time, requests, an epoch, the order, those of the
// policy.
func (c *tap) reserved(args []string, now string, result rueidis.RedisResult) error {
	var requests []int64
	for run := range strings.FieldsSeq(args[1]) {
		one, _, _ := strings.Cut(run, "<")
		some, err := runs(one)
		if err != nil {
			return err
		}
		requests = append(requests, some...)
	}
	reply, err := result.ToArray()
	if err != nil {
		return err
	}
	answers, err := reply[1].ToString()
	if err != nil {
		return err
	}
	for i, answer := range strings.Split(answers, ",") {
		first, _, _ := strings.Cut(answer, " ")
		delay, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return err
		}
		if delay >= 0 {
			if err := c.note(now, delay, requests[i], args[4]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *tap) note(now string, delay, permits int64, first string) error {
	lo, err := strconv.ParseInt(now, 10, 64)
	if err != nil {
		return err
	}
	limit, _ := strconv.ParseInt(first, 10, 64)
	g := grant{lo + delay, lo + delay, permits, limit}
	if c.clock != nil {
		g.hi = max(g.lo, c.clock().UnixMicro())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grants = append(c.grants, g)
	return nil
}

// runs reads requests: '1*200 3*1'.
func runs(all string) (requests []int64, err error) {
	for run := range strings.FieldsSeq(all) {
		one, many, _ := strings.Cut(run, "*")
		permits, err := strconv.ParseInt(one, 10, 64)
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(many)
		if err != nil {
			return nil, err
		}
		requests = append(requests, slices.Repeat([]int64{permits}, n)...)
	}
	return requests, nil
}

// seen returns the grants of taps in the order of time, which is that of Redis on the server's
// clock.
func seen(t testing.TB, taps ...*tap) (all []grant) {
	t.Helper()
	for _, c := range taps {
		c.mu.Lock()
		require.NoError(t, errors.Join(c.errs[:min(3, len(c.errs))]...))
		all = append(all, c.grants...)
		c.mu.Unlock()
	}
	slices.SortStableFunc(all, func(a, b grant) int { return cmp.Compare(a.lo, b.lo) })
	return all
}
