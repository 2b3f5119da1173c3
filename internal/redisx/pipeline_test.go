package redisx

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// echoScript replies its first key, the numbers of its keys and arguments, and the arguments.
var echoScript = NewScript(`return {KEYS[1], #KEYS, #ARGV, unpack(ARGV)}`)

// otherScript does the same.
var otherScript = NewScript(`return {KEYS[1], #KEYS, #ARGV, unpack(ARGV)} -- another`)

// conn counts the pipelines that it sends, and may panic instead.
type conn struct {
	rueidis.Client
	sent  []int // the commands of each pipeline
	panic int   // the number of the pipeline that panics, from 1 on
}

func (c *conn) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	c.sent = append(c.sent, len(commands))
	if len(c.sent) == c.panic {
		panic("no connection")
	}
	return c.Client.DoMulti(ctx, commands...)
}

// answers are the replies that a pipeline passed on, by key.
type answers map[string][]string

func (a answers) call(f *redistest.Fixture, script *Script, key string, args ...string) *Call {
	c := &Call{Script: script, Keys: []string{key}, Args: args}
	c.Done = func() {
		if c.Err != nil {
			a[key] = []string{c.Err.Error()}
			return
		}
		elements, err := c.Reply.ToArray()
		require.NoError(f, err)
		for _, m := range elements {
			text, err := m.ToString()
			if err != nil {
				n, err := m.AsInt64()
				require.NoError(f, err)
				text = strconv.FormatInt(n, 10)
			}
			a[key] = append(a[key], text)
		}
	}
	return c
}

func alone(int, func() int) {}

func TestPipeline_UnknownScripts_AreSentAgainWithTheirText(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		conn := &conn{Client: f.Conn}
		p := &Pipeline{Redis: conn, Collect: alone}
		for range 2 { // the server knows neither of the scripts, and then both
			got := make(answers)
			d := p.Add(got.call(f, echoScript, "a", "x"))
			require.Nil(t, p.Add(got.call(f, otherScript, "b")))
			require.Nil(t, p.Add(got.call(f, echoScript, "c", "y", "z")))
			p.Send(t.Context(), d)
			assert.Equal(t, answers{"a": {"a", "1", "1", "x"}, "b": {"b", "1", "0"}, "c": {"c", "1", "2", "y", "z"}}, got)
		}
		assert.Equal(t, []int{3, 3, 3}, conn.sent)
	})
}

func TestPipeline_ConnectionPanicsBetweenReplies_FailsTheCallsWithoutOne(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		_, err := echoScript.Exec(t.Context(), f.Conn, []string{"x"}, nil)
		require.NoError(t, err)
		p := &Pipeline{Redis: &conn{Client: f.Conn, panic: 2}, Collect: alone}
		got := make(answers)
		d := p.Add(got.call(f, echoScript, "a"))
		require.Nil(t, p.Add(got.call(f, otherScript, "b"))) // the server does not know that script
		assert.PanicsWithValue(t, "no connection", func() { p.Send(t.Context(), d) })
		assert.Equal(t, answers{"a": {"a", "1", "0"}, "b": {ErrNoReply.Error()}}, got)
	})
}

func TestPipeline_Full_BeginsAnother(t *testing.T) {
	p := &Pipeline{Collect: alone}
	first := p.Add(new(Call))
	for range MaxPipelined - 1 {
		assert.Nil(t, p.Add(new(Call)))
	}
	second := p.Add(new(Call))
	require.NotNil(t, second)
	assert.NotSame(t, first, second)
}

// TestPipeline_CallerHasLeft_IsNotSent: neither a call, nor the text of its script in a second
// pipeline.
func TestPipeline_CallerHasLeft_IsNotSent(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		conn := &conn{Client: f.Conn}
		p := &Pipeline{Redis: conn, Collect: alone}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := p.Do(ended, echoScript, []string{"a"}, nil)
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, conn.sent)

		got := make(answers)
		left := got.call(f, echoScript, "left")
		left.Context = ended
		d := p.Add(left)
		p.Add(got.call(f, otherScript, "stays"))
		p.Send(t.Context(), d)
		assert.Equal(t, answers{"left": {context.Canceled.Error()}, "stays": {"stays", "1", "0"}}, got)
		assert.Equal(t, []int{2, 1}, conn.sent)
	})
}

// TestPipeline_OneCallFails_OthersHaveTheirReplies: also the later calls of the same goroutines, which
// the pipeline keeps the memory of earlier ones for.
func TestPipeline_OneCallFails_OthersHaveTheirReplies(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		failing := NewScript(`return redis.error_reply('ERR of this call')`)
		p := &Pipeline{Redis: f.Conn, Collect: func(enough int, calls func() int) {
			for calls() < enough { // all share one pipeline
				runtime.Gosched()
			}
		}}
		for round := range 3 {
			var ended sync.WaitGroup
			for i := range MaxPipelined {
				ended.Go(func() {
					key := strconv.Itoa(round*MaxPipelined + i)
					if i == MaxPipelined/2 {
						_, err := p.Do(t.Context(), failing, []string{key}, nil)
						assert.ErrorContains(t, err, "of this call")
						return
					}
					reply, err := p.Do(t.Context(), echoScript, []string{key}, []string{"x"})
					if !assert.NoError(t, err) {
						return
					}
					elements, err := reply.ToArray()
					assert.NoError(t, err)
					first, err := elements[0].ToString()
					assert.NoError(t, err)
					assert.Equal(t, key, first)
				})
			}
			ended.Wait()
		}
	})
}
