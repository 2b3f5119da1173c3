// Command api writes the exported API of each public package to the folder api. A file has one
// declaration per line, so that a reviewer sees a change of the API as a difference.
// Run it in the root of the repository:
//
//	go run ./integration/tools/api
package main

import (
	"fmt"
	"go/types"
	"log"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("api: ")
	files, err := describe(".")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join("api", name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// describe returns the file name and the declarations of each public package in the workspace of
// root.
func describe(root string) (map[string]string, error) {
	all, err := packages.Load(&packages.Config{Dir: root,
		Mode: packages.NeedName | packages.NeedModule | packages.NeedTypes}, "work")
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, p := range all {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, p.Errors[0])
		}
		private := p.Module == nil || slices.Contains([]string{"integration", "examples"}, path.Base(p.Module.Path))
		if !private && p.Name != "main" && !isInternal(p.Types) {
			files[path.Base(p.PkgPath)+".txt"] = strings.Join(declarations(p.Types), "\n") + "\n"
		}
	}
	return files, nil
}

func isInternal(pkg *types.Package) bool {
	return pkg != nil && slices.Contains(strings.Split(pkg.Path(), "/"), "internal")
}

// declarations returns the exported constants, functions, methods, types, fields and variables of a
// package, sorted. They name other packages, and not the package itself. An internal package has its
// path, also before a method or field that comes from it.
func declarations(pkg *types.Package) (lines []string) {
	qualifier := func(other *types.Package) string {
		switch {
		case other == pkg:
			return ""
		case isInternal(other):
			return other.Path()
		}
		return other.Name()
	}
	add := func(texts ...string) { lines = append(lines, strings.Join(texts, "")) }
	name := func(of types.Object) string {
		if isInternal(of.Pkg()) {
			return of.Pkg().Path() + "." + of.Name()
		}
		return of.Name()
	}
	signature := func(of types.Object) string {
		return name(of) + strings.TrimPrefix(types.TypeString(of.Type(), qualifier), "func")
	}
	var fields func(prefix string, t types.Type)
	fields = func(prefix string, t types.Type) {
		if pointer, ok := t.(*types.Pointer); ok {
			t = pointer.Elem()
		}
		s, ok := t.Underlying().(*types.Struct)
		for i := 0; ok && i < s.NumFields(); i++ {
			if field := s.Field(i); field.Exported() {
				add(prefix, ", ", name(field), " ", types.TypeString(field.Type(), qualifier))
			} else if field.Embedded() { // its fields are promoted
				fields(prefix, field.Type())
			}
		}
	}
	for _, top := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(top)
		if !object.Exported() {
			continue
		}
		text := types.ObjectString(object, qualifier)
		if constant, ok := object.(*types.Const); ok {
			text += " = " + constant.Val().ExactString()
		}
		of, ok := object.(*types.TypeName)
		if !ok || of.IsAlias() {
			add(text)
			continue
		}
		switch t := of.Type().Underlying().(type) {
		case *types.Struct:
			add("type ", top, " struct")
			fields("type "+top+" struct", of.Type())
		case *types.Interface:
			add("type ", top, " interface")
			for method := range t.Methods() {
				if method.Exported() {
					add("type ", top, " interface, ", signature(method))
				} else {
					add("type ", top, " interface, unexported methods")
				}
			}
			continue
		default:
			add(text)
		}
		// Also those of embedded types.
		for selection := range types.NewMethodSet(types.NewPointer(of.Type())).Methods() {
			if method := selection.Obj(); method.Exported() {
				receiver := "*" + top
				if types.NewMethodSet(of.Type()).Lookup(method.Pkg(), method.Name()) != nil {
					receiver = top
				}
				add(fmt.Sprintf("method (%s) %s", receiver, signature(method)))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
