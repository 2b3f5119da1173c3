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

	"github.com/rratelimiter/rratelimiter/internal/include"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// call is the name of a script's source.
type call string

const (
	acquire call = "acquire"
	wait    call = "wait" // acquire for callers that wait, beside those of other Clients
	charge  call = "charge"
	release call = "release"
	peek    call = "peek"
	pause   call = "pause"
	returns call = "return"
	renew   call = "renew"
	drain   call = "drain"
)

// fixedArguments is the number of arguments of a script before those of its policies.
var fixedArguments = map[call]int{acquire: 3, wait: 3, charge: 3, release: 2, peek: 1, pause: 2, returns: 1, renew: 1, drain: 3}

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
		if c == drain {
			key += " " + drainable(members, i)
		}
	}
	found, ok := scripts.Load(key)
	if !ok {
		found, _ = scripts.LoadOrStore(key, redisx.NewScript(scriptText(c, members)))
	}
	return found.(*redisx.Script) //nolint:errcheck,forcetypeassert // nothing else is there
}

var parts = regexp.MustCompile(`^(each|once|include) `)

var list = regexp.MustCompile(`\w+@@`)

// scriptText returns the text of the script of a call for policies: see scripts/acquire.lua.
func scriptText(c call, members []member) string {
	var text strings.Builder
	brief := "{text@@}"
	if len(members) == 1 {
		brief = "text1"
	}
	source := string(c)
	if c == wait {
		source = string(acquire)
	}
	for line := range strings.Lines(calls[source]) {
		if before, waiting, ok := strings.Cut(line, "--@waiting "); ok {
			if c != wait {
				continue
			}
			if line = before + waiting; parts.MatchString(waiting) {
				line = before + "--@" + waiting
			}
		}
		indent, command, _ := strings.Cut(line, "--@")
		command, section, _ := strings.Cut(strings.TrimSpace(command), " ")
		switch command {
		case "each", "once":
			for i, m := range members {
				earlier := func(before member) bool { return before.described.Lua == m.described.Lua }
				if command == "once" && slices.ContainsFunc(members[:i], earlier) || !m.hasIn(c, section) || !m.takesPart(c) {
					continue
				}
				for line := range strings.Lines(sectionText(c, members, i, section)) {
					text.WriteString(indent + line)
				}
			}
		default:
			line = strings.ReplaceAll(line, "@brief", brief)
			text.WriteString(list.ReplaceAllStringFunc(line, func(name string) string {
				all := make([]string, len(members))
				for i := range members {
					all[i] = fmt.Sprint(strings.TrimSuffix(name, "@@"), i+1)
				}
				return strings.Join(all, ", ")
			}))
		}
	}
	keys := 0
	for _, m := range members {
		keys += len(m.types())
	}
	return strings.NewReplacer("@last", fmt.Sprint(argument(c, members, len(members))), "@waiters", fmt.Sprint(keys+1)).
		Replace(included.Expand(text.String()))
}

// sectionText returns a section for the policy at an index.
func sectionText(c call, members []member, index int, section string) string {
	p := members[index].policy
	parts := maps.Clone(included)
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
	if section == string(drain) {
		pairs = append(pairs, "drainable@", drainable(members, index))
	}
	return strings.NewReplacer(append(pairs, "@", fmt.Sprint(index+1))...).Replace(parts.Text(section))
}

// argument is the place of a member's first argument in those of a script, or of the first one
// behind all members.
func argument(c call, members []member, index int) int {
	at := fixedArguments[c]
	for _, m := range members[:index] {
		at += len(m.policy.arguments(nil, time.Time{}))
	}
	return at
}

//go:embed *.lua scripts
var luaFiles embed.FS

// calls are the sources of scripts, by call: see scripts/acquire.lua. included are the parts that
// they take in, with those of package include.
var (
	calls    = redisx.ReadParts(luaFiles, "scripts")
	included = func() redisx.Parts {
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
