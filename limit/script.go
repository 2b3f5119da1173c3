package limit

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

//go:embed *.lua
var sources embed.FS

// parts are the parts of script.lua, and sections those of each kind of policy: of each other file.
var (
	parts    = redisx.ParseParts(source("script"))
	sections = func() map[string]redisx.Parts {
		all := make(map[string]redisx.Parts)
		files, _ := sources.ReadDir(".") // the error of an embedded directory is always nil
		for _, file := range files {
			kind := strings.TrimSuffix(file.Name(), ".lua")
			if kind == "script" {
				continue
			}
			all[kind] = redisx.Parts{string(reserve): parts[string(reserve)], string(cancel): parts[string(cancel)]}
			if base, ok := inherits[kind]; ok {
				maps.Copy(all[kind], redisx.ParseParts(source(base)))
			}
			maps.Copy(all[kind], redisx.ParseParts(source(kind)))
		}
		return all
	}()
)

// inherits names the kinds that have the sections of another one, but for their own.
var inherits = map[string]string{"leakybucket": "tokenbucket", "calendar": "fixedwindow"}

// source returns the text of a .lua file.
func source(name string) string {
	text, err := sources.ReadFile(name + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// The calls that scripts are assembled for.
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

// scripts holds the scripts by call and kinds of policies: as many as a program has combinations.
var scripts sync.Map // string -> *redisx.Script

// scriptFor returns the script of a call for policies.
func scriptFor(c call, members []member) *redisx.Script {
	key := string(c)
	for _, m := range members {
		key += " " + m.policy.kind()
	}
	found, ok := scripts.Load(key)
	if !ok {
		found, _ = scripts.LoadOrStore(key, redisx.NewScript(assemble(c, members)))
	}
	return found.(*redisx.Script) //nolint:errcheck,forcetypeassert // nothing else is there
}

// fixedArguments is the number of arguments of a script before those of its policies. The optional
// arguments of acquire and lease follow those of the policies.
var fixedArguments = map[call]int{acquire: 3, lease: 5, charge: 3, release: 2, peek: 1, reserve: 4, cancel: 2}

// assemble returns the text of the script of a call for policies.
func assemble(c call, members []member) string {
	var text strings.Builder
	each := func(section, begin, end string) {
		keysBefore, argumentsBefore := 0, fixedArguments[c]
		for i, m := range members {
			keys, arguments := len(m.policy.keeps()), len(m.policy.arguments(nil, time.Time{}))
			if m.has(section) && (c != release || m.has("release")) {
				fmt.Fprint(&text, strings.ReplaceAll(begin, "@", fmt.Sprint(i+1)),
					bind(sections[m.policy.kind()].Text(section), i+1, keysBefore, keys, argumentsBefore, arguments), end)
			}
			keysBefore += keys
			argumentsBefore += arguments
		}
	}
	list := func(name string) (all []string) {
		for i := range members {
			all = append(all, fmt.Sprint(name, i+1))
		}
		return all
	}
	least := func(all ...string) string {
		if len(all) == 1 {
			return all[0]
		}
		return "min(" + strings.Join(all, ", ") + ")"
	}
	reply := func() {
		each("report", "", "")
		values := list("report")
		if c == lease {
			values = append(values, "leased", "span")
		}
		text.WriteString(strings.ReplaceAll(parts["reply"], "@", strings.Join(values, ", ")))
	}
	at := slices.IndexFunc(members, func(m member) bool { return m.policy.kind() == "redisson" })
	if at >= 0 && c != release {
		root := members[at].policy.(redisson).limiter.Script
		body := redisx.Parts{"settled": root("store", "grant", "checked", "expiry") + "return reply\n", "waits": root("waits")}
		maps.Copy(body, sections["redisson"])
		fmt.Fprintf(&text, "local function redisson(KEYS, ARGV)\n%slocal hint, ended\n%s%send\n",
			root("names"), root("limiter", "value", "window", "reclaim", "cap"), body.Text("limiter"))
	}
	each("read", "", "")
	each("again", "", "")
	switch c {
	case acquire, lease:
		credits := []string{fmt.Sprint(maxPermits)}
		for i, m := range members {
			if strings.Contains(sections[m.policy.kind()]["read"], "credit@") {
				credits = append(credits, fmt.Sprint("credit", i+1))
			}
		}
		fmt.Fprintf(&text, "local free, most, credit = %s, %s, %s\n", least(list("free")...), least(list("most")...),
			least(credits...))
		last := argument(c, members, len(members))
		fmt.Fprintf(&text, "local runs, flags = ARGV[%d] or '', ARGV[%d] or ''\n", last+1, last+2)
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
			text.WriteString(strings.ReplaceAll(parts["brief"], "@", strings.Join(list("text"), ", ")))
		}
		reply()
	case charge:
		text.WriteString(parts["charge"])
		each("take", "do\n", "end\n")
		reply()
	case release:
		text.WriteString(parts["release"])
		fmt.Fprintf(&text, "local marks = %d\n", argument(c, members, len(members)))
		each("release", "do\nlocal mark = ARGV[marks + @]\n", "end\n")
		text.WriteString("return 1\n")
	case peek:
		text.WriteString("local answers, want = '*', 1\n")
		reply()
	case reserve, cancel:
		each(string(c), "", "")
	}
	return parts.Text("head") + text.String()
}

// bind returns a section for the policy with a number. The policy's keys and arguments follow
// keysBefore and argumentsBefore others of the script.
func bind(section string, number, keysBefore, keys, argumentsBefore, arguments int) string {
	pairs := []string{"KEYS[@]", fmt.Sprintf("KEYS[%d]", keysBefore+1)}
	for i := range keys {
		pairs = append(pairs, fmt.Sprintf("KEYS[@%d]", i+1), fmt.Sprintf("KEYS[%d]", keysBefore+i+1))
	}
	for i := range arguments {
		pairs = append(pairs, fmt.Sprintf("ARGV[@%d]", i+1), fmt.Sprintf("ARGV[%d]", argumentsBefore+i+1))
	}
	return strings.NewReplacer(append(pairs, "@", fmt.Sprint(number))...).Replace(section)
}
