// Package luanames finds the names that a Lua script uses. It is for tests, which reject a script
// with an undeclared name: Lua would treat it as a global.
package luanames

import (
	"regexp"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// globals are the names that every script may use.
var globals = strings.Fields("KEYS ARGV redis string math table tonumber type ipairs unpack")

// suffix stands for the "@" at the end of a name.
const suffix = "_of_policy"

var suffixed = regexp.MustCompile(`(\w)@`)

// Find returns the undeclared names that a text uses, without globals, and the names that it
// declares outside of all blocks. In a script of package limit, "@" stands for the number of a policy, which
// may end a name. Find panics if the text is not valid Lua.
func Find(text string) (used, declared []string) {
	text = strings.ReplaceAll(suffixed.ReplaceAllString(text, "${1}"+suffix), "@", "1")
	chunk, err := parse.Parse(strings.NewReader(text), "script")
	if err != nil {
		panic(err)
	}
	for _, statement := range chunk {
		if local, ok := statement.(*ast.LocalAssignStmt); ok {
			declared = append(declared, local.Names...)
		}
	}
	function, err := lua.Compile(chunk, "script")
	if err != nil {
		panic(err)
	}
	used = slices.DeleteFunc(globalsOf(function), func(name string) bool { return slices.Contains(globals, name) })
	for _, names := range [][]string{used, declared} {
		for i, name := range names {
			names[i] = strings.ReplaceAll(name, suffix, "@")
		}
		slices.Sort(names)
	}
	return slices.Compact(used), slices.Compact(declared)
}

// globalsOf returns the names that a function and the functions in it read or set as globals.
func globalsOf(function *lua.FunctionProto) (names []string) {
	for _, instruction := range function.Code {
		// Lua 5.1: the operation has the upper six bits, the number of the constant the lower eighteen.
		switch int(instruction >> 26) {
		case lua.OP_GETGLOBAL, lua.OP_SETGLOBAL:
			names = append(names, function.Constants[instruction&(1<<18-1)].String())
		}
	}
	for _, inner := range function.FunctionPrototypes {
		names = append(names, globalsOf(inner)...)
	}
	return names
}

// Part has the declarations in the "--@ name" line of a part.
type Part struct {
	In, Out []string // the names that it reads and sets
}

// Header returns the declaration in the comment of a file: "-- Needs: a b." and "-- Sets: c.". The
// lines up to the full stop belong to it.
func Header(source string) Part {
	var comment strings.Builder
	for line := range strings.Lines(source) {
		text, ok := strings.CutPrefix(line, "--")
		if !ok {
			break
		}
		comment.WriteString(text)
	}
	names := func(word string) []string {
		_, after, _ := strings.Cut(comment.String(), word+": ")
		list, _, _ := strings.Cut(after, ".")
		return strings.Fields(list)
	}
	return Part{In: names("Needs"), Out: names("Sets")}
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
