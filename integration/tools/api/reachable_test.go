package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// No program outside this repository can name, read or change anything of an internal package.
func TestPackages_InternalTypes_AreNotReachable(t *testing.T) {
	public, err := load(repository)
	require.NoError(t, err)
	for _, p := range public {
		assert.Empty(t, internalNames(p.Types), p.PkgPath)
	}
	assert.Greater(t, len(public), 8)
}

func TestInternalNames_EveryWayToReachOne_IsFound(t *testing.T) {
	files := token.NewFileSet()
	inside := types.NewPackage("example.com/internal/inside", "inside")
	field := types.NewField(token.NoPos, inside, "Mode", types.Typ[types.Int], false)
	settings := types.NewTypeName(token.NoPos, inside, "Settings", nil)
	types.NewNamed(settings, types.NewStruct([]*types.Var{field}, nil), nil)
	inside.Scope().Insert(settings)
	inside.MarkComplete()
	file, err := parser.ParseFile(files, "p.go", `package p
import "example.com/internal/inside"
type hidden struct { inside.Settings }
type Promotes struct { *hidden }
type Shows struct { Settings []inside.Settings; unseen inside.Settings }
type Named inside.Settings
type Alias = inside.Settings
func Of(map[string]*inside.Settings) {}
func (Shows) Get() (func() inside.Settings, error) { return nil, nil }
`, 0)
	require.NoError(t, err)
	importer := importerFunc(func(string) (*types.Package, error) { return inside, nil })
	pkg, err := (&types.Config{Importer: importer}).Check("example.com/p", files, []*ast.File{file}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"Alias", "Named.Mode", "Of", "Promotes.Mode", "Promotes.Settings", "Shows.Get", "Shows.Settings",
	}, internalNames(pkg))
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

// internalNames returns the names of internal packages that a program reaches through a package.
func internalNames(pkg *types.Package) []string {
	r := reached{}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		if of, ok := object.(*types.TypeName); ok && !of.IsAlias() {
			r.members(of.Name(), of.Type())
			continue
		}
		r.types(name, object.Type())
	}
	slices.Sort(r)
	return slices.Compact(r)
}

type reached []string

func isInternal(pkg *types.Package) bool {
	return pkg != nil && slices.Contains(strings.Split(pkg.Path(), "/"), "internal")
}

// members adds the exported fields and methods of a type, those of embedded types too.
func (r *reached) members(path string, t types.Type) {
	for selection := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		method := selection.Obj()
		switch {
		case !method.Exported():
		case isInternal(method.Pkg()):
			*r = append(*r, path+"."+method.Name())
		default:
			r.types(path+"."+method.Name(), method.Type())
		}
	}
	r.fields(path, t)
}

func (r *reached) fields(path string, t types.Type) {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	of, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for field := range of.Fields() {
		switch {
		case field.Embedded() && field.Exported() && namesInternal(field.Type()), field.Exported() && isInternal(field.Pkg()):
			*r = append(*r, path+"."+field.Name())
		case field.Exported():
			r.types(path+"."+field.Name(), field.Type())
		}
		if field.Embedded() {
			r.fields(path, field.Type())
		}
	}
}

func namesInternal(t types.Type) bool {
	var found reached
	found.types("", t)
	return len(found) > 0
}

// types adds a path if the text of its type names an internal type.
func (r *reached) types(path string, t types.Type) {
	types.TypeString(types.Unalias(t), func(pkg *types.Package) string {
		if isInternal(pkg) {
			*r = append(*r, path)
		}
		return ""
	})
}
