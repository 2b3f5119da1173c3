package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The files in api are the API of the packages, and no program outside this repository can name, read
// or change anything of an internal package. A change of a package needs make api.
func TestFiles_Packages_AreCurrent(t *testing.T) {
	const repository = "../../.."
	files, err := describe(repository)
	require.NoError(t, err)
	for name, want := range files {
		text, err := os.ReadFile(filepath.Join(repository, "api", name))
		require.NoError(t, err, "make api, then review the difference")
		require.Equal(t, want, string(text), "api/%s: make api, then review the difference", name)
		for line := range strings.Lines(want) { // no other module can call Inside
			assert.False(t, strings.Contains(line, "/internal/") && !strings.Contains(line, ") Inside("), line)
		}
	}
	existing, err := filepath.Glob(filepath.Join(repository, "api", "*.txt"))
	require.NoError(t, err)
	for _, file := range existing {
		if name := filepath.Base(file); name != "dependencies.txt" {
			require.Contains(t, files, name, "the file of a package that is no longer there: remove it")
		}
	}
}

type importer struct{ *types.Package }

func (i importer) Import(string) (*types.Package, error) { return i.Package, nil }

// Kinds that the packages do not have today.
func TestDeclarations_OtherKinds_AreListed(t *testing.T) {
	inside := types.NewPackage("example.com/internal/inside", "inside")
	field := types.NewField(token.NoPos, inside, "Mode", types.Typ[types.Int], false)
	settings := types.NewTypeName(token.NoPos, inside, "Settings", nil)
	types.NewNamed(settings, types.NewStruct([]*types.Var{field}, nil), nil)
	inside.Scope().Insert(settings)
	inside.MarkComplete()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p.go", `package p
import "example.com/internal/inside"
type hidden struct { inside.Settings }
func (hidden) Promoted() {}
type Open struct { *hidden; unseen inside.Settings }
type Alias = Open
type Set[K comparable] map[K]bool
type Named inside.Settings
func Of(map[string]*inside.Settings) {}
`, 0)
	require.NoError(t, err)
	pkg, err := (&types.Config{Importer: importer{inside}}).Check("example.com/p", files, []*ast.File{file}, nil)
	require.NoError(t, err)
	require.Equal(t, strings.Split(strings.TrimSpace(`
func Of(map[string]*example.com/internal/inside.Settings)
method (Open) Promoted()
type Alias = Open
type Named struct
type Named struct, example.com/internal/inside.Mode int
type Open struct
type Open struct, Settings example.com/internal/inside.Settings
type Set[K comparable] map[K]bool
`), "\n"), declarations(pkg))
}
