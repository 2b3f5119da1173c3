package limit

import (
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

//go:embed *.lua
var sources embed.FS

// parts is the parts of script.lua, and sections those of each kind of policy, by their names.
var (
	parts    = cut("script.lua")
	sections = func() map[string]map[string]string {
		all := make(map[string]map[string]string)
		for _, kind := range kinds {
			all[kind] = cut(kind + ".lua")
			for _, whole := range []call{reserve, cancel} {
				all[kind][string(whole)] = parts[string(whole)]
			}
		}
		for kind, base := range map[string]string{"leakybucket": "tokenbucket", "calendar": "fixedwindow"} {
			for name, body := range all[base] {
				if _, own := all[kind][name]; !own {
					all[kind][name] = body
				}
			}
		}
		return all
	}()
)

// cut reads a file of parts, each of which begins at its "--@ name" line.
func cut(file string) map[string]string {
	text, err := sources.ReadFile(file)
	if err != nil {
		panic(err)
	}
	found := make(map[string]string)
	name := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimLeft(line, " ")
		if begin, ok := strings.CutPrefix(line, "--@ "); ok {
			name = strings.TrimSpace(begin)
			continue
		}
		// The comments stay here: a server keeps the text of every script that it was sent.
		if name != "" && line != "\n" && !strings.HasPrefix(line, "-- ") {
			found[name] += line
		}
	}
	return found
}

// The calls that scripts are put together for.
type call string

const (
	acquire call = "acquire"
	lease   call = "lease" // acquire, and a lease
	charge  call = "charge"
	release call = "release"
	peek    call = "peek"
	reserve call = "reserve"
	cancel  call = "cancel"
)

// scripts is those that were put together, by call and kinds. There are as many as a program has
// combinations of policies: whoever looks for one finds it in a map that nobody changes.
var scripts struct {
	making sync.Mutex
	made   atomic.Pointer[map[string]*redisx.Script]
}

// scriptFor gives the script of a call for policies.
func scriptFor(c call, members []member) *redisx.Script {
	var space [128]byte
	key := append(space[:0], c...)
	for _, m := range members {
		key = append(append(key, ' '), m.policy.kind()...)
	}
	if made := scripts.made.Load(); made != nil {
		if found, ok := (*made)[string(key)]; ok {
			return found
		}
	}
	scripts.making.Lock()
	defer scripts.making.Unlock()
	all := make(map[string]*redisx.Script)
	if made := scripts.made.Load(); made != nil {
		all = maps.Clone(*made)
	}
	found, ok := all[string(key)]
	if !ok {
		found = redisx.NewScript(assemble(c, members))
		all[string(key)] = found
		scripts.made.Store(&all)
	}
	return found
}

// before is how many arguments of a script come before those of its policies. Those of acquire and
// lease that are needed now and then alone come behind them.
var before = map[call]int{acquire: 3, lease: 5, charge: 3, release: 2, peek: 1, reserve: 3, cancel: 2}

// assemble returns the text of the script of a call for policies.
func assemble(c call, members []member) string {
	var text strings.Builder
	each := func(section, begin, end string) {
		key, argument := 0, before[c]
		for i, m := range members {
			keys, arguments := len(m.policy.keeps()), len(m.policy.arguments(nil, time.Time{}))
			if all := sections[m.policy.kind()]; all[section] != "" {
				fmt.Fprint(&text, strings.ReplaceAll(begin, "@", fmt.Sprint(i+1)), number(all, section, i+1, key, keys, argument, arguments), end)
			}
			key += keys
			argument += arguments
		}
	}
	list := func(name string) (all []string) {
		for i := range members {
			all = append(all, fmt.Sprint(name, i+1))
		}
		return all
	}
	least := func(all []string, none string) string {
		switch len(all) {
		case 0:
			return none
		case 1:
			return all[0]
		}
		return "min(" + strings.Join(all, ", ") + ")"
	}
	tell := func() {
		each("tell", "", "")
		text.WriteString(strings.ReplaceAll(parts["reply"], "@", ", "+strings.Join(list("told"), ", ")))
		if c == lease {
			text.WriteString(parts["leased"])
		}
		text.WriteString(parts["return"])
	}
	if slices.ContainsFunc(members, func(m member) bool { return m.policy.kind() == "redisson" }) {
		body := strings.ReplaceAll(sections["redisson"]["limiter"], "--@settled\n", inside.Script("store", "grant", "checked", "expiry"))
		body = strings.ReplaceAll(body, "--@waits\n", inside.Script("waits"))
		fmt.Fprintf(&text, "local function redisson(KEYS, ARGV)\n%s%send\n", inside.Script("names", "unhinted", "limiter", "value", "window", "reclaim", "cap"), body)
	}
	each("read", "", "")
	each("again", "", "")
	switch c {
	case acquire, lease:
		var credits []string
		for i, m := range members {
			if strings.Contains(sections[m.policy.kind()]["read"], "credit@") {
				credits = append(credits, fmt.Sprint("credit", i+1))
			}
		}
		fmt.Fprintf(&text, "local free, most, credit = %s, %s, %s\n", least(list("free"), ""), least(list("most"), ""),
			least(credits, fmt.Sprint(maxPermits)))
		last := argument(c, members, len(members))
		fmt.Fprintf(&text, "local runs, letters = ARGV[%d] or '', ARGV[%d] or ''\n", last+1, last+2)
		text.WriteString(parts["acquire"])
		each("more", "", "")
		if c == lease {
			text.WriteString("local span = tonumber(ARGV[5])\n")
			each("lease", "", "")
			text.WriteString(parts["lease"])
		}
		each("settle", "do\n", "end\n")
		text.WriteString("if granted > 0 then\n")
		each("take", "do\n", "end\n")
		text.WriteString("end\n")
		if c == acquire {
			texts := "text1"
			if len(members) > 1 {
				texts = "{" + strings.Join(list("text"), ", ") + "}"
			}
			text.WriteString(strings.ReplaceAll(parts["plain"], "@", texts))
		}
		tell()
	case charge:
		text.WriteString(parts["charge"])
		each("take", "do\n", "end\n")
		tell()
	case release:
		text.WriteString(parts["release"])
		fmt.Fprintf(&text, "local marks = %d\n", argument(c, members, len(members)))
		each("release", "do\nlocal mark = ARGV[marks + @]\n", "end\n")
		text.WriteString("return 1\n")
	case peek:
		text.WriteString("local answers, want = '*', 1\n")
		tell()
	case reserve, cancel:
		each(string(c), "", "")
	}
	return withHead(text.String())
}

// names are the functions that sections call by a short name.
var names = map[string]string{
	"call": "redis.call", "floor": "math.floor", "ceil": "math.ceil", "max": "math.max", "min": "math.min", "fmod": "math.fmod",
	"match": "string.match", "format": "string.format", "tonumber": "tonumber",
}

var calling = regexp.MustCompile(`\b[a-z]+\(`)

// withHead puts before a script the parts of the head that it uses, and before these the functions
// that they call, as locals: a call of a local function costs the server less than that of a global
// one.
func withHead(text string) string {
	body := parts["head"]
	if strings.Contains(text, "millis") {
		body += parts["millis"]
	}
	body += text
	var locals, functions []string
	for _, found := range calling.FindAllString(body, -1) {
		name := strings.TrimSuffix(found, "(")
		if function, ok := names[name]; ok && !slices.Contains(locals, name) {
			locals, functions = append(locals, name), append(functions, function)
		}
	}
	return fmt.Sprintf("local %s = %s\n", strings.Join(locals, ", "), strings.Join(functions, ", ")) + body
}

// number gives a section for the policy of a number, whose keys and arguments come behind so many
// others. A line "--@name" in it stands for another section.
func number(all map[string]string, section string, policy, otherKeys, keys, others, arguments int) string {
	pairs := []string{"KEYS[@]", fmt.Sprintf("KEYS[%d]", otherKeys+1)}
	for i := range keys {
		pairs = append(pairs, fmt.Sprintf("KEYS[@%d]", i+1), fmt.Sprintf("KEYS[%d]", otherKeys+i+1))
	}
	for i := range arguments {
		pairs = append(pairs, fmt.Sprintf("ARGV[@%d]", i+1), fmt.Sprintf("ARGV[%d]", others+i+1))
	}
	pairs = append(pairs, "@", fmt.Sprint(policy))
	return strings.NewReplacer(pairs...).Replace(expand(all, section))
}

// expand gives a section with those that its lines stand for.
func expand(all map[string]string, section string) string {
	var text strings.Builder
	for line := range strings.Lines(all[section]) {
		if name, ok := strings.CutPrefix(line, "--@"); ok {
			line = expand(all, strings.TrimSpace(name))
		}
		text.WriteString(line)
	}
	return text.String()
}
