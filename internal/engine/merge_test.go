package engine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echoScript replies its first key, how many keys and arguments it was given, and these.
var echoScript = NewScript("", `return {KEYS[1], #KEYS, #ARGV, unpack(ARGV)}`)

// otherScript does the same.
var otherScript = NewScript("", `return {KEYS[1], #KEYS, #ARGV, unpack(ARGV)} -- and is another`)

// sendAll sends calls with a merging of their own, and gives what each replied, or its error.
func (c *sending) sendAll(b *bubble, m *merging, calls []scriptCall) (told []string) {
	m.send(b.Context(), c, calls)
	for i := range calls {
		if err := calls[i].err; err != nil {
			told = append(told, err.Error())
		} else {
			told = append(told, texts(b, &calls[i].reply))
		}
	}
	return told
}

func texts(b *bubble, m *rueidis.RedisMessage) string {
	if m.IsInt64() {
		n, _ := m.AsInt64()
		return strconv.FormatInt(n, 10)
	}
	if m.IsString() {
		text, _ := m.ToString()
		return text
	}
	if m.IsNil() {
		return "nil"
	}
	all, err := m.ToArray()
	require.NoError(b, err)
	var words []string
	for i := range all {
		words = append(words, texts(b, &all[i]))
	}
	return strings.Join(words, " ")
}

func echo(script *Script, keys string, args ...string) scriptCall {
	return scriptCall{script: script, keys: strings.Fields(keys), args: args}
}

// TestCallsOfOneScriptAreOne: those with as many keys and arguments, and what takes its time alone.
func TestCallsOfOneScriptAreOne(t *testing.T) {
	inBubble(t, func(b *bubble) {
		long := strings.Repeat("1", mergedText/2)
		conn := &sending{Client: b.Conn}
		for range 2 { // the server knows none of the scripts, and then all
			conn.pipelines = nil
			assert.Equal(b, []string{"a 1 2 x y", "b 1 1 x", "c 1 2 z ", "d 2 1 x", "e 1 1 x", "f 1 2 " + long + " " + long, "g 2 1 y",
				"h 1 1 x", "i 1 1 " + long, "k 1 0", "l 1 0"},
				conn.sendAll(b, new(merging), []scriptCall{
					echo(echoScript, "a", "x", "y"), echo(echoScript, "b", "x"), echo(echoScript, "c", "z", ""), echo(echoScript, "d d2", "x"),
					echo(otherScript, "e", "x"), echo(echoScript, "f", long, long), echo(echoScript, "g g2", "y"),
					echo(otherScript, "h", "x"), echo(echoScript, "i", long), echo(echoScript, "k"), echo(echoScript, "l"),
				}))
			assert.Equal(b, [][]string{{"a c", "b i", "d d2 g g2", "e h", "f", "k l"}}, conn.pipelines)
		}
		// A long call that comes first stays alone as well.
		conn.pipelines = nil
		conn.sendAll(b, new(merging), []scriptCall{echo(echoScript, "a", long, long), echo(echoScript, "b"), echo(echoScript, "c")})
		assert.Equal(b, [][]string{{"a", "b c"}}, conn.pipelines)
		// So does one of long names, which the server would keep for all of them at once.
		name := strings.Repeat("n", mergedKeys)
		conn.pipelines = nil
		conn.sendAll(b, new(merging), []scriptCall{echo(echoScript, name), echo(echoScript, "b"), echo(echoScript, name), echo(echoScript, "c")})
		assert.Equal(b, [][]string{{name, "b c", name}}, conn.pipelines)
	})
}

// TestWhatAllOfAMergedCallShareIsSentOnce, and what stands before a script runs once.
func TestWhatAllOfAMergedCallShareIsSentOnce(t *testing.T) {
	for _, c := range []struct {
		calls [][]string
		sent  []string
	}{
		{[][]string{{"1", "x", "t"}, {"1", "y", "t"}, {"1", "z", "t"}}, []string{"2", "sos", "1", "t", "x", "y", "z"}},
		{[][]string{{"1", "x", "t"}, {"2", "x", "t"}, {"1", "x", "u"}}, []string{"2", "oso", "x", "1", "t", "2", "t", "1", "u"}},
		{[][]string{{"1", "2"}, {"2", "1"}}, []string{"2", "oo", "1", "2", "2", "1"}},
		{[][]string{{"", "s"}, {"", "s"}}, []string{"2", "ss", "", "s"}},
		{[][]string{{}, {}}, []string{"2", ""}},
	} {
		inBubble(t, func(b *bubble) {
			var g group
			var calls []scriptCall
			var want []string
			for i, args := range c.calls {
				keys := fmt.Sprintf("k%d l%d", i, i)
				calls = append(calls, echo(echoScript, keys, args...))
				want = append(want, strings.Join(append([]string{fmt.Sprintf("k%d", i), "2", strconv.Itoa(len(args))}, args...), " "))
			}
			for i := range calls {
				g = append(g, &calls[i])
			}
			script, keys, args := g.merged()
			assert.Same(b, echoScript.many, script)
			assert.Equal(b, []string{"k0", "l0", "k1", "l1"}, keys[:4])
			assert.Equal(b, c.sent, args)
			conn := &sending{Client: b.Conn}
			assert.Equal(b, want, conn.sendAll(b, new(merging), calls))
			assert.Len(b, conn.pipelines[0], 1, "one call")
		})
	}
	inBubble(t, func(b *bubble) {
		script := NewScript("local count = 0\n", "count = count + 1 return count")
		conn := &sending{Client: b.Conn}
		assert.Equal(b, []string{"1", "2", "3"}, conn.sendAll(b, new(merging), []scriptCall{echo(script, "a"), echo(script, "b"), echo(script, "c")}))
		assert.Equal(b, []string{"1"}, conn.sendAll(b, new(merging), []scriptCall{echo(script, "a")}))
	})
}

// TestEachOfAMergedCallHasItsOwnReply: an error, nothing, or what else a script can reply.
func TestEachOfAMergedCallHasItsOwnReply(t *testing.T) {
	script := NewScript("", `
if ARGV[1] == 'raise' then
  return redis.call('INCR', KEYS[1])
elseif ARGV[1] == 'error' then
  return redis.error_reply('MINE of the script')
elseif ARGV[1] == 'fault' then
  return nothing.there
elseif ARGV[1] ~= 'none' then
  return tonumber(ARGV[1]) or ARGV[1]
end`)
	inBubble(t, func(b *bubble) {
		b.Redis.HSet("hash", "a", "b")
		conn := &sending{Client: b.Conn}
		told := conn.sendAll(b, new(merging), []scriptCall{echo(script, "a", "1"), echo(script, "hash", "raise"), echo(script, "b", "error"), echo(script, "c", "none"),
			echo(script, "d", "fault"), echo(script, "e", "text"), echo(script, "new", "raise")})
		assert.Len(b, conn.pipelines[0], 1, "one call")
		assert.Equal(b, "1", told[0])
		assert.Contains(b, told[1], "WRONGTYPE")
		assert.Contains(b, told[2], "MINE of the script")
		assert.Contains(b, told[3], "nil")
		assert.Contains(b, told[4], "nothing")
		assert.Equal(b, []string{"text", "1"}, told[5:])
	})
}

// TestAServerThatTakesNoMergedCallsGetsEachAlone, and nothing of what it refused was done; after a while it is asked again.
func TestAServerThatTakesNoMergedCallsGetsEachAlone(t *testing.T) {
	inBubble(t, func(b *bubble) {
		refuses := true
		b.Redis.Server().SetPreHook(func(p *server.Peer, command string, args ...string) bool {
			if refuses = refuses && command == "EVALSHA"; refuses && args[1] != "1" {
				p.WriteError("CROSSSLOT Keys in request don't hash to the same slot")
				return true
			}
			refuses = true
			return false
		})
		conn, m := &sending{Client: b.Conn}, new(merging)
		calls := func() []scriptCall {
			return []scriptCall{echo(echoScript, "a", "x"), echo(echoScript, "b", "y"), echo(otherScript, "c", "z")}
		}
		for range 2 {
			assert.Equal(b, []string{"a 1 1 x", "b 1 1 y", "c 1 1 z"}, conn.sendAll(b, m, calls()))
		}
		assert.Equal(b, [][]string{{"a b", "c"}, {"a", "b"}, {"a", "b", "c"}}, conn.pipelines)
		for range whileUnable - 2 {
			m.send(b.Context(), conn, calls())
		}
		conn.pipelines = nil
		m.send(b.Context(), conn, calls())
		m.send(b.Context(), conn, calls())
		assert.Equal(b, [][]string{{"a", "b", "c"}, {"a b", "c"}, {"a", "b"}}, conn.pipelines)
	})
}

// TestWhatAServerRefusesUnreadIsSentAlone, in the words of Redis, of a proxy, and of a Lua that takes less.
func TestWhatAServerRefusesUnreadIsSentAlone(t *testing.T) {
	for _, refusal := range []string{
		"NOPERM this user has no permissions to access one of the keys used as arguments", "ERR eval/evalsha command keys must be in same slot",
		"ERR Error compiling script (new function): user_script:201: too many local variables (limit is 200)",
	} {
		inBubble(t, func(b *bubble) {
			b.Redis.Server().SetPreHook(func(p *server.Peer, command string, args ...string) bool {
				refuses := command == "EVALSHA" && args[1] != "1"
				if refuses {
					p.WriteError(refusal)
				}
				return refuses
			})
			conn := &sending{Client: b.Conn}
			assert.Equal(b, []string{"a 1 0", "b 1 0"}, conn.sendAll(b, new(merging), []scriptCall{echo(echoScript, "a"), echo(echoScript, "b")}), refusal)
		})
	}
}

// TestAMergedCallThatFailsFailsForAll: nobody knows what came of it, and it is not sent again.
func TestAMergedCallThatFailsFailsForAll(t *testing.T) {
	inBubble(t, func(b *bubble) {
		conn := &sending{Client: b.Conn}
		for name, fail := range map[string]func() rueidis.RedisResult{
			"no reply":      func() rueidis.RedisResult { return rueidis.NewErrorResult(errors.New("broken")) },
			"fewer replies": func() rueidis.RedisResult { return b.Conn.Do(b.Context(), b.Conn.B().Mget().Key("x").Build()) },
			"a number":      func() rueidis.RedisResult { return b.Conn.Do(b.Context(), b.Conn.B().Incr().Key("x").Build()) },
			"a proxy whose server is gone": func() rueidis.RedisResult {
				return b.Conn.Do(b.Context(), b.Conn.B().Eval().Script("return redis.error_reply('ERR upstream failure')").Numkeys(0).Build())
			},
		} {
			conn.pipelines = nil
			conn.instead = func(_ []string, send func() []rueidis.RedisResult) []rueidis.RedisResult {
				send() // it may have been carried out
				return []rueidis.RedisResult{fail()}
			}
			calls := []scriptCall{echo(echoScript, "a"), echo(echoScript, "b")}
			new(merging).send(b.Context(), conn, calls)
			for i := range calls {
				assert.Error(b, calls[i].err, "%s: %d", name, i)
			}
			assert.Len(b, conn.pipelines, 1, name)
		}
	})
}
