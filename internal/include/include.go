// Package include has the Lua that the scripts of several packages take in by "--@include name".
package include

import (
	"embed"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Files are the files of this package.
//
//go:embed *.lua
var Files embed.FS

// Parts are their texts by name.
var Parts = redisx.ReadParts(Files, ".")
