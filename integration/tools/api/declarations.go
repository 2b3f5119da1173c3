package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// declarations returns the exported constants, functions, methods, types, fields and variables of a
// package, sorted.
func declarations(pkg *types.Package) []string {
	d := declared{pkg: pkg}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch object := object.(type) {
		case *types.Const:
			d.add("%s = %s", d.text(object), object.Val().ExactString())
		case *types.TypeName:
			d.typeName(object)
		default:
			d.add("%s", d.text(object))
		}
	}
	slices.Sort(d.lines)
	return d.lines
}

type declared struct {
	pkg   *types.Package
	lines []string
}

func (d *declared) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// qualifier names a package in declarations: by its name, or not at all for the package itself.
func (d *declared) qualifier(pkg *types.Package) string {
	if pkg == d.pkg {
		return ""
	}
	return pkg.Name()
}

func (d *declared) text(object types.Object) string { return types.ObjectString(object, d.qualifier) }

func (d *declared) typeText(t types.Type) string { return types.TypeString(t, d.qualifier) }

// typeName adds a type, its exported fields and methods, and those that it has from embedded types.
func (d *declared) typeName(object *types.TypeName) {
	if object.IsAlias() {
		d.add("%s", d.text(object))
		return
	}
	name := object.Name()
	switch t := object.Type().Underlying().(type) {
	case *types.Struct:
		d.add("type %s struct", name)
		for field := range t.Fields() {
			if field.Exported() {
				d.add("type %s struct, %s %s", name, field.Name(), d.typeText(field.Type()))
			}
		}
	case *types.Interface:
		d.add("type %s interface", name)
		for method := range t.Methods() {
			if method.Exported() {
				d.add("type %s interface, %s%s", name, method.Name(), d.signature(method))
			} else {
				d.add("type %s interface, unexported methods", name)
			}
		}
		return
	default:
		d.add("%s", d.text(object))
	}
	for selection := range types.NewMethodSet(types.NewPointer(object.Type())).Methods() {
		method, ok := selection.Obj().(*types.Func)
		if !ok || !method.Exported() {
			continue
		}
		receiver := "*" + name
		if types.NewMethodSet(object.Type()).Lookup(method.Pkg(), method.Name()) != nil {
			receiver = name
		}
		d.add("method (%s) %s%s", receiver, method.Name(), d.signature(method))
	}
}

func (d *declared) signature(method *types.Func) string {
	return strings.TrimPrefix(d.typeText(method.Type()), "func")
}
