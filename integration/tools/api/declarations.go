package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// declarations returns the exported constants, functions, methods, types, fields and variables of a
// package, sorted. They name other packages, and not the package itself.
func declarations(pkg *types.Package) (lines []string) {
	qualifier := func(other *types.Package) string {
		if other == pkg {
			return ""
		}
		return other.Name()
	}
	add := func(texts ...string) { lines = append(lines, strings.Join(texts, "")) }
	signature := func(of types.Object) string {
		return of.Name() + strings.TrimPrefix(types.TypeString(of.Type(), qualifier), "func")
	}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
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
			add("type ", name, " struct")
			for field := range t.Fields() {
				if field.Exported() {
					add("type ", name, " struct, ", field.Name(), " ", types.TypeString(field.Type(), qualifier))
				}
			}
		case *types.Interface:
			add("type ", name, " interface")
			for method := range t.Methods() {
				if method.Exported() {
					add("type ", name, " interface, ", signature(method))
				} else {
					add("type ", name, " interface, unexported methods")
				}
			}
			continue
		default:
			add(text)
		}
		// Also those of embedded types.
		for selection := range types.NewMethodSet(types.NewPointer(of.Type())).Methods() {
			if method := selection.Obj(); method.Exported() {
				receiver := "*" + name
				if types.NewMethodSet(of.Type()).Lookup(method.Pkg(), method.Name()) != nil {
					receiver = name
				}
				add(fmt.Sprintf("method (%s) %s", receiver, signature(method)))
			}
		}
	}
	slices.Sort(lines)
	return lines
}
