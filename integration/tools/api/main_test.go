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

	"github.com/stretchr/testify/require"
)

const repository = "../../.."

// The files in api are the API of the packages. A change of a package needs make api.
func TestFiles_Packages_AreCurrent(t *testing.T) {
	public, err := load(repository)
	require.NoError(t, err)
	files := describe(public)
	for name, want := range files {
		text, err := os.ReadFile(filepath.Join(repository, "api", name))
		require.NoError(t, err, "make api, then review the difference")
		require.Equal(t, want, string(text), "api/%s: make api, then review the difference", name)
	}
	existing, err := filepath.Glob(filepath.Join(repository, "api", "*.txt"))
	require.NoError(t, err)
	for _, file := range existing {
		if name := filepath.Base(file); name != "dependencies.txt" {
			require.Contains(t, files, name, "the file of a package that is no longer there: remove it")
		}
	}
}

// Kinds that the packages do not have today.
func TestDeclarations_OtherKinds_AreListed(t *testing.T) {
	const source = `package p
type hidden struct{}
func (hidden) Promoted() {}
type Open struct { hidden; unseen int }
type Alias = Open
type Set[K comparable] map[K]bool
`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p.go", source, 0)
	require.NoError(t, err)
	pkg, err := new(types.Config).Check("example.com/p", files, []*ast.File{file}, nil)
	require.NoError(t, err)
	require.Equal(t, strings.Split(strings.TrimSpace(`
method (Open) Promoted()
type Alias = Open
type Open struct
type Set[K comparable] map[K]bool
`), "\n"), declarations(pkg))
}
