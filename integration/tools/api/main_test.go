package main

import (
	"go/ast"
	"go/importer"
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
	files, err := describe(t.Context(), repository)
	require.NoError(t, err)
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

func TestDeclarations_Kinds_AreListed(t *testing.T) {
	const source = `package p
import "time"
const Most int64 = 3
var Err error
type Plain int
func (Plain) String() string { return "" }
type hidden struct{}
func (hidden) Promoted() {}
type Open struct { hidden; Wait time.Duration; unseen int }
func (o *Open) Close() error { return nil }
func (o *Open) secret() {}
type Policy interface { Name() string; secret() }
type Alias = Open
type Set[K comparable] map[K]bool
func New(name string, opts ...Plain) *Open { return nil }
func internal() {}
`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p.go", source, 0)
	require.NoError(t, err)
	config := types.Config{Importer: importer.ForCompiler(files, "source", nil)}
	pkg, err := config.Check("example.com/p", files, []*ast.File{file}, nil)
	require.NoError(t, err)
	require.Equal(t, strings.Split(strings.TrimSpace(`
const Most int64 = 3
func New(name string, opts ...Plain) *Open
method (*Open) Close() error
method (Open) Promoted()
method (Plain) String() string
type Alias = Open
type Open struct
type Open struct, Wait time.Duration
type Plain int
type Policy interface
type Policy interface, Name() string
type Policy interface, unexported methods
type Set[K comparable] map[K]bool
var Err error
`), "\n"), declarations(pkg))
}
