// Package luanames finds the names that a Lua script uses. It is for tests, which reject a script
// with an undeclared name: Lua would treat it as a global.
package luanames

import (
	"regexp"
	"slices"
	"strings"
)

// globals are the names that every script may use.
var globals = strings.Fields("KEYS ARGV redis string math table tonumber type ipairs unpack")

const keywords = " and break do else elseif end false for function if in local nil not or repeat return then true " +
	"until while "

var (
	token      = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\])*'|[0-9][0-9a-zA-Z.]*|[A-Za-z_][A-Za-z_0-9]*@?|\.\.|[=~<>]=|\S`)
	identifier = regexp.MustCompile(`^[A-Za-z_]`)
)

// Find returns the undeclared names that a text uses, without globals, and the names that it
// declares outside of all blocks. A name in a script of package limit may end in "@".
func Find(text string) (used, declared []string) {
	f := finder{scopes: []map[string]bool{{}}}
	for _, t := range token.FindAllString(text, -1) {
		if !strings.HasPrefix(t, "--") {
			f.tokens = append(f.tokens, t)
		}
	}
	for f.at < len(f.tokens) {
		f.step()
	}
	for n := range f.scopes[0] {
		declared = append(declared, n)
	}
	slices.Sort(f.used)
	slices.Sort(declared)
	return slices.Compact(f.used), declared
}

type finder struct {
	tokens   []string
	at       int
	scopes   []map[string]bool // the innermost last
	brackets []string
	loop     bool // the next "do" belongs to a loop, whose scope has begun
	used     []string
}

// next consumes a token and returns it.
func (f *finder) next() string {
	f.at++
	return f.tokens[f.at-1]
}

func (f *finder) peek() string {
	if f.at < len(f.tokens) {
		return f.tokens[f.at]
	}
	return ""
}

func (f *finder) push() { f.scopes = append(f.scopes, map[string]bool{}) }

func (f *finder) pop() {
	if len(f.scopes) > 1 {
		f.scopes = f.scopes[:len(f.scopes)-1]
	}
}

// declare declares the names of a list.
func (f *finder) declare() {
	for identifier.MatchString(f.peek()) {
		f.scopes[len(f.scopes)-1][f.next()] = true
		if f.peek() != "," {
			return
		}
		f.at++
	}
}

func (f *finder) step() {
	switch t := f.next(); t {
	case "local":
		if f.peek() == "function" {
			f.at++
			f.declare()
			f.function()
		} else {
			f.declare()
		}
	case "function":
		for f.peek() != "(" {
			f.use(f.next())
		}
		f.function()
	case "for":
		f.push()
		f.declare()
		f.loop = true
	case "while":
		f.push()
		f.loop = true
	case "do":
		if !f.loop {
			f.push()
		}
		f.loop = false
	case "then", "repeat":
		f.push()
	case "else":
		f.pop()
		f.push()
	case "elseif", "end", "until":
		f.pop()
	case "{", "(":
		f.brackets = append(f.brackets, t)
	case "}", ")":
		f.brackets = f.brackets[:max(0, len(f.brackets)-1)]
	default:
		f.use(t)
	}
}

// function begins the scope of a function and declares its parameters.
func (f *finder) function() {
	f.push()
	f.at++ // the bracket
	f.declare()
	f.at++
}

// use records a name, unless it is declared, a field, or a key of a table.
func (f *finder) use(t string) {
	field := f.at > 1 && (f.tokens[f.at-2] == "." || f.tokens[f.at-2] == ":")
	key := len(f.brackets) > 0 && f.brackets[len(f.brackets)-1] == "{" && f.peek() == "="
	if !identifier.MatchString(t) || field || key || strings.Contains(keywords, " "+t+" ") || slices.Contains(globals, t) {
		return
	}
	for _, scope := range f.scopes {
		if scope[t] {
			return
		}
	}
	f.used = append(f.used, t)
}

// Part has the declarations in the "--@ name" line of a part.
type Part struct {
	In, Out []string // the names that it reads and sets
}

// Declared returns the declarations of the parts of a source. A line "--+" continues one.
func Declared(source string) map[string]Part {
	parts := make(map[string]Part)
	for head := range strings.Lines(strings.ReplaceAll(source, "\n--+", "")) {
		head, ok := strings.CutPrefix(head, "--@ ")
		if !ok {
			continue
		}
		var words *[]string
		var part Part
		name, names, _ := strings.Cut(strings.TrimSpace(head), " ")
		for _, word := range strings.Fields(names) {
			switch word {
			case "in:":
				words = &part.In
			case "out:":
				words = &part.Out
			default:
				*words = append(*words, word)
			}
		}
		parts[name] = part
	}
	return parts
}
