package limit

import (
	"embed"
	"maps"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/include"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

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
	text := source(kind)
	own := redisx.ParseParts(text)
	if _, after, ok := strings.Cut(text, "\n--@from "); ok {
		base, _, _ := strings.Cut(after, "\n")
		all := readSections(base)
		maps.Copy(all, own)
		return all
	}
	return own
}

// source returns the text of the Lua file of a policy.
func source(kind string) string {
	text, err := luaFiles.ReadFile(kind + ".lua")
	if err != nil {
		panic(err)
	}
	return string(text)
}
