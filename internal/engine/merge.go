package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// Calls of one script for several names that leave together are one call to the server: what each would cost it beside the
// script's own commands is more than those of a short script are. Each has its own reply, which can be an error. It is at least a fifth more
// decisions with 256 callers on 10,000 names of a FixedWindow or a TokenBucket, and an eighth more for Redisson's layout, whose script
// has seven commands. Redis would do the calls of a pipeline in one go, too: nobody waits longer. make bench measures it.
const (
	mergedText  = 160     // bytes of arguments from which on a call stays alone: it carries many requests, and takes its time
	mergedKeys  = 4 << 10 // bytes of keys, likewise: a server copies those of a call all at once, 170 MB of 32 names of 1 MB, not 7
	whileUnable = 1000    // pipelines that are sent unmerged once a server refused a merged call
)

// manyHead and manyTail make of a script one for many names. Its first argument is how many keys each name has, its second has a letter
// for each argument of a name: s for one that all share, which comes next, o for one that each has of its own, which come behind those,
// name by name. What a name's part raises, an older server's text or a newer one's table, is its reply.
const (
	manyHead = "local one = function(KEYS, ARGV)\n"
	manyTail = `
end
local pcall, type, all, given = pcall, type, KEYS, ARGV
local each, letters, key, arg, keys, args, own, replies = given[1] + 0, given[2], 0, 2, {}, {}, {}, {}
for i = 1, #letters do
if string.byte(letters, i) == 115 then
arg = arg + 1
args[i] = given[arg]
else
own[#own + 1] = i
end
end
local count = #own
for i = 1, #all / each do
for j = 1, each do
keys[j] = all[key + j]
end
for j = 1, count do
args[own[j]] = given[arg + j]
end
local ok, reply = pcall(one, keys, args)
if not ok and type(reply) ~= 'table' then
reply = {err = 'ERR ' .. reply}
end
replies[i] = reply or false
key = key + each
arg = arg + count
end
return replies
`
)

// scriptCall is a script that is to run, and what came of it.
type scriptCall struct {
	script     *Script
	keys, args []string
	reply      rueidis.RedisMessage
	err        error

	// Of a call whose reply nobody waits for: what it carries.
	limiter *Limiter
	entry   *entry
	batch   *Batch
}

// like says whether a call can be merged with another that is as short.
func (c *scriptCall) like(other *scriptCall) bool {
	return c.script == other.script && len(c.keys) == len(other.keys) && len(c.args) == len(other.args)
}

// short says whether a call can be merged with others.
func (c *scriptCall) short() bool {
	return size(c.args) < mergedText && size(c.keys) < mergedKeys
}

func size(texts []string) (bytes int) {
	for _, text := range texts {
		bytes += len(text)
	}
	return bytes
}

// merging sends calls, and merges those that it can.
type merging struct {
	unable atomic.Int64 // how many pipelines are still sent unmerged
}

// send sends calls in one pipeline and sets what came of them. Those of a merged call that a server refuses are sent once more, each
// alone.
func (m *merging) send(ctx context.Context, redis rueidis.Client, calls []scriptCall) {
	if refused := sendGroups(ctx, redis, m.groups(calls)); len(refused) > 0 {
		m.unable.Store(whileUnable)
		sendGroups(ctx, redis, refused)
	}
}

// sendGroups sends a call for each group in one pipeline. The calls of groups that the server refused as such are for another one.
func sendGroups(ctx context.Context, redis rueidis.Client, groups []group) (refused []group) {
	commands := make(rueidis.Commands, len(groups))
	for i, g := range groups {
		script, keys, args := g.merged()
		commands[i] = redis.B().Evalsha().Sha1(script.sha1).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
	for i, result := range redis.DoMulti(ctx, commands...) {
		g := groups[i]
		message, err := result.ToMessage()
		if refused, ok := rueidis.IsRedisErr(err); ok && refused.IsNoScript() {
			script, keys, args := g.merged()
			message, err = script.exec(ctx, redis, keys, args)
		}
		if len(g) > 1 && refusesMany(err) {
			for _, c := range g {
				refused = append(refused, group{c})
			}
			continue
		}
		g.deliver(message, err)
	}
	return refused
}

// refusesMany says that a server refused a merged call unread, but may take each of its calls: the user has no right for one of the
// names, or they are kept in different places, or its Lua does not take the script. What other errors there are can be those of a
// proxy that lost its server, which has carried the call out.
func refusesMany(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	text := strings.ToLower(refused.Error())
	return strings.HasPrefix(text, "noperm") || strings.Contains(text, "slot") || strings.Contains(text, "error compiling")
}

// groups makes groups of calls.
func (m *merging) groups(calls []scriptCall) []group {
	able := m.unable.Load() <= 0
	if !able {
		m.unable.Add(-1)
	}
	groups := make([]group, 0, 4)
next:
	for i := range calls {
		c := &calls[i]
		if able && c.short() {
			for j, g := range groups {
				if c.like(g[0]) && g[0].short() {
					groups[j] = append(g, c)
					continue next
				}
			}
		}
		groups = append(groups, append(make(group, 0, len(calls)-i), c))
	}
	return groups
}

// group is calls that are one to the server: of one script, with as many keys and arguments each.
type group []*scriptCall

// merged is the call for all of a group.
func (g group) merged() (script *Script, keys, args []string) {
	first := g[0]
	if len(g) == 1 {
		return first.script, first.keys, first.args
	}
	letters := make([]byte, len(first.args))
	args = append(make([]string, 0, 2+len(letters)*len(g)), strconv.Itoa(len(first.keys)), "")
	for i, arg := range first.args {
		if letters[i] = 's'; slices.ContainsFunc(g, func(c *scriptCall) bool { return c.args[i] != arg }) {
			letters[i] = 'o'
			continue
		}
		args = append(args, arg)
	}
	args[1] = string(letters)
	keys = make([]string, 0, len(first.keys)*len(g))
	for _, c := range g {
		keys = append(keys, c.keys...)
		for i, arg := range c.args {
			if letters[i] == 'o' {
				args = append(args, arg)
			}
		}
	}
	return first.script.many, keys, args
}

// deliver gives a group's calls what came of it.
func (g group) deliver(message rueidis.RedisMessage, err error) {
	if len(g) == 1 {
		g[0].reply, g[0].err = message, err
		return
	}
	var replies []rueidis.RedisMessage
	if err == nil {
		if replies, err = message.ToArray(); err == nil && len(replies) != len(g) {
			err = errNotMany
		}
	}
	for i, c := range g {
		if c.err = err; err == nil {
			c.reply, c.err = replies[i], replies[i].Error()
		}
	}
}

var errNotMany = errors.New("rratelimiter: a call for several limiters has more or fewer replies than limiters")
