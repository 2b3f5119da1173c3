package limit

import (
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rratelimiter/rratelimiter/internal/include"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// call is the name of a script's source.
type call string

const (
	acquireCall call = "acquire"
	waitCall    call = "wait" // acquire for callers that wait, beside those of other Clients
	chargeCall  call = "charge"
	releaseCall call = "release"
	peekCall    call = "peek"
	pauseCall   call = "pause"
	returnCall  call = "return"
	renewCall   call = "renew"
	drainCall   call = "drain"
)

// ownArguments is the number of arguments of a script before the time: see scripts/acquire.lua.
var ownArguments = map[call]int{acquireCall: 1, waitCall: 1, chargeCall: 1, releaseCall: 2, peekCall: 0, pauseCall: 1,
	drainCall: 1}

// fixedArguments is the number of arguments of a script before those of its policies.
func fixedArguments(c call, members []member) int {
	n := ownArguments[c]
	if readsTime(c, members) {
		n++
	}
	if readsEpoch(c, members) {
		n++
	}
	return n
}

// readsTime reports whether the script of a call reads its time.
func readsTime(c call, members []member) bool {
	return c == waitCall || usesAny(members, "now", "millis")
}

// readsEpoch reports whether the script of a call reads the epoch of a state that begins with it.
func readsEpoch(c call, members []member) bool {
	return takesPermits(c) && usesAny(members, "epoch")
}

// takesPermits reports whether a call takes permits.
func takesPermits(c call) bool {
	return c == acquireCall || c == waitCall || c == chargeCall || c == drainCall
}

// usesAny reports whether a section of a member uses one of these locals.
func usesAny(members []member, locals ...string) bool {
	return slices.ContainsFunc(members, func(m member) bool {
		return slices.ContainsFunc(locals, func(name string) bool { return wordsUsed[m.described.Lua][name] })
	})
}

// scripts holds the scripts by call and kinds of policies: as many as a program has combinations.
var scripts sync.Map // string -> *redisx.Script

// scriptFor returns the script of a call for policies.
func scriptFor(c call, members []member) *redisx.Script {
	key := string(c)
	for i, m := range members {
		key += " " + m.described.Lua
		if isPenalty(m) {
			key += " " + beside(members, i)
		}
		if c == drainCall {
			key += " " + drainable(members, i)
		}
	}
	found, ok := scripts.Load(key)
	if !ok {
		found, _ = scripts.LoadOrStore(key, redisx.NewScript(scriptText(c, members)))
	}
	return found.(*redisx.Script) //nolint:errcheck,forcetypeassert // nothing else is there
}

var (
	listWord      = regexp.MustCompile(`\w+@@`)
	leastOfList   = regexp.MustCompile(`min\((\w+)@@\)`)
	localLine     = regexp.MustCompile(`^local (\w+) = `)
	loopLine      = regexp.MustCompile(`^ *(for|while) `)
	statementLine = regexp.MustCompile(`^(local |if |for |while |do$|return\b|[\w., ]+ = |[\w.]+\()`)
)

// scriptText returns the text of the script of a call for policies: see scripts/acquire.lua.
func scriptText(c call, members []member) string {
	var text strings.Builder
	brief := "{text@@}"
	if len(members) == 1 {
		brief = "text1"
	}
	for _, line := range sourceOf(c) {
		indent, command, _ := strings.Cut(line, "--@")
		words := append(strings.Fields(command), "")
		switch words[0] {
		case "each", "once", "lone":
			for i, m := range members {
				section := words[1]
				if len(words) > 3 && !m.has(section) {
					section = words[2]
				}
				earlier := func(before member) bool { return before.described.Lua == m.described.Lua }
				if words[0] == "once" && slices.ContainsFunc(members[:i], earlier) ||
					words[0] == "lone" && len(members) > 1 || !m.hasIn(c, section) || !m.takesPart(c) {
					continue
				}
				for line := range strings.Lines(sectionText(c, members, i, section)) {
					text.WriteString(indent + line)
				}
			}
		default:
			if len(members) == 1 {
				line = leastOfList.ReplaceAllString(line, "${1}1")
			}
			line = strings.ReplaceAll(line, "@brief", brief)
			text.WriteString(listWord.ReplaceAllStringFunc(line, func(name string) string {
				all := make([]string, len(members))
				for i := range members {
					all[i] = fmt.Sprint(strings.TrimSuffix(name, "@@"), i+1)
				}
				return strings.Join(all, ", ")
			}))
		}
	}
	body := includedParts.Expand(text.String())
	if words := wordsOf(body); words["now"] || words["millis"] {
		body = includedParts["clock"] + body
	}
	keys := 0
	for _, m := range members {
		keys += len(m.types())
	}
	return strings.NewReplacer("@last", fmt.Sprint(argument(c, members, len(members))),
		"@time", fmt.Sprint(ownArguments[c]+1), "@epoch", fmt.Sprint(fixedArguments(c, members)),
		"@waiters", fmt.Sprint(keys+1)).Replace(withLocals(withTables(withoutUnused(body), len(members))))
}

// mostWithLocals is how many policies of a script have locals: Lua allows 200 in all.
const mostWithLocals = 5

// withTables puts the locals of the policies behind mostWithLocals into a table for each.
func withTables(text string, policies int) string {
	for i := mostWithLocals + 1; i <= policies; i++ {
		table := fmt.Sprintf("more%d", i)
		own := regexp.MustCompile(fmt.Sprintf(`\b([a-z]+)%d\b`, i))
		declared := regexp.MustCompile(fmt.Sprintf(`(?m)^( *)local (%s\.)`, table))
		text = own.ReplaceAllString(text, table+".$1")
		text = fmt.Sprintf("local %s = {}\n", table) + declared.ReplaceAllString(text, "$1$2")
	}
	return text
}

// sourceOf returns the lines of the source of a call.
func sourceOf(c call) []string {
	source := c
	if c == waitCall {
		source = acquireCall
	}
	return slices.Collect(strings.Lines(include.Waiting(callSources[string(source)], c == waitCall)))
}

// withoutUnused removes the lines "local name = value" with a name that no line below uses.
func withoutUnused(text string) string {
	lines, below := slices.Collect(strings.Lines(text)), make(map[string]bool)
	for i, line := range slices.Backward(lines) {
		if name := localLine.FindStringSubmatch(line); name != nil && !below[name[1]] {
			lines[i] = ""
			continue
		}
		maps.Copy(below, wordsOf(line))
	}
	return strings.Join(lines, "")
}

// withLocals declares the locals of include/head.lua that a text uses: each in the innermost block that has all
// its uses, before the first, and outside of loops. A call does not pay for what its lines do not use.
func withLocals(text string) string {
	lines := slices.Collect(strings.Lines(text))
	level := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	for declaration := range strings.Lines(includedParts["head"]) {
		name := localLine.FindStringSubmatch(declaration)[1]
		use := regexp.MustCompile(`(^|[^\w.])` + name + `\b`)
		uses := func(line string) bool { return strings.Contains(line, name) && use.MatchString(line) }
		at, last, outer := slices.IndexFunc(lines, uses), 0, len(text)
		if at < 0 {
			continue
		}
		for i, line := range lines {
			if uses(line) {
				last = i
			}
		}
		for _, line := range lines[at : last+1] {
			outer = min(outer, level(line))
		}
		for level(lines[at]) > outer || !statementLine.MatchString(strings.TrimSpace(lines[at])) {
			at--
		}
		for i := at; i >= 0; i-- {
			if level(lines[i]) < outer {
				if outer = level(lines[i]); loopLine.MatchString(lines[i]) {
					at = i
				}
			}
		}
		outer = level(lines[at])
		lines = slices.Insert(lines, at, strings.Repeat(" ", outer)+declaration)
	}
	return strings.Join(lines, "")
}

// wordsOf returns the words of a text.
func wordsOf(text string) map[string]bool {
	all := make(map[string]bool)
	separates := func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, w := range strings.FieldsFunc(text, separates) {
		all[w] = true
	}
	return all
}

// sectionText returns a section for the policy at an index.
func sectionText(c call, members []member, index int, section string) string {
	p := members[index].policy
	parts := maps.Clone(includedParts)
	maps.Copy(parts, sections[members[index].described.Lua])
	keysBefore := 0
	for _, m := range members[:index] {
		keysBefore += len(m.types())
	}
	pairs := []string{"@last", "@last"}
	for i := range members[index].types() {
		pairs = append(pairs, fmt.Sprintf("KEYS[@%d]", i+1), fmt.Sprintf("KEYS[%d]", keysBefore+i+1))
	}
	first := argument(c, members, index)
	for i := range p.arguments(nil, time.Time{}) {
		pairs = append(pairs, fmt.Sprintf("ARGV[@%d]", i+1), fmt.Sprintf("ARGV[%d]", first+i+1))
	}
	if isPenalty(members[index]) {
		pairs = append(pairs, "beside@", beside(members, index))
	}
	if section == string(drainCall) {
		pairs = append(pairs, "drainable@", drainable(members, index))
	}
	return strings.NewReplacer(append(pairs, "@", fmt.Sprint(index+1))...).Replace(parts.Text(section))
}

// argument is the place of a member's first argument in those of a script, or of the first one
// behind all members.
func argument(c call, members []member, index int) int {
	at := fixedArguments(c, members)
	for _, m := range members[:index] {
		at += len(m.policy.arguments(nil, time.Time{}))
	}
	return at
}

//go:embed *.lua scripts
var luaFiles embed.FS

// callSources are the sources of scripts, by call: see scripts/acquire.lua. includedParts are the parts that
// they take in, with those of package include.
var (
	callSources   = redisx.ReadParts(luaFiles, "scripts")
	includedParts = func() redisx.Parts {
		all := maps.Clone(include.Parts)
		maps.Copy(all, redisx.ReadParts(luaFiles, "scripts/include"))
		return all
	}()
)

// sections are those of each kind of policy, of its Lua file.
var sections = func() map[string]redisx.Parts {
	all := make(map[string]redisx.Parts)
	files, _ := luaFiles.ReadDir(".") // the error of an embedded directory is always nil
	for _, file := range files {
		if kind, ok := strings.CutSuffix(file.Name(), ".lua"); ok {
			all[kind] = readSections(kind)
		}
	}
	return all
}()

// wordsUsed has the words of the sections of each kind of policy.
var wordsUsed = func() map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	for kind, parts := range sections {
		all[kind] = make(map[string]bool)
		for name := range parts {
			maps.Copy(all[kind], wordsOf(parts[name]))
		}
	}
	return all
}()

// readSections returns the sections of a Lua file. A line "--@from name" gives it those sections of
// another file that it does not have.
func readSections(kind string) redisx.Parts {
	file, _ := luaFiles.ReadFile(kind + ".lua") // each kind has one
	text := string(file)
	own := redisx.ParseParts(text)
	if _, after, ok := strings.Cut(text, "\n--@from "); ok {
		base, _, _ := strings.Cut(after, "\n")
		all := readSections(base)
		maps.Copy(all, own)
		return all
	}
	return own
}
