package main

import (
	"go/ast"
	"go/parser"
	"go/token"
)

var operators = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.LAND: "||", token.LOR: "&&",
}

// goEdits returns the mutations of the functions of a Go source: swapped operators, negated
// conditions, and deleted statements. Some do not compile.
func goEdits(source string) (all []edit, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(start, end token.Pos, with string) {
		all = append(all, edit{files.Position(start).Offset, files.Position(end).Offset, with})
	}
	negate := func(condition ast.Expr) {
		switch condition.(type) {
		case *ast.Ident, *ast.CallExpr, *ast.SelectorExpr:
			add(condition.Pos(), condition.Pos(), "!")
		}
	}
	visit := func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BinaryExpr:
			if with, ok := operators[n.Op]; ok {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), with)
			}
			if n.Op == token.LAND || n.Op == token.LOR {
				negate(n.X)
				negate(n.Y)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT || n.Op == token.SUB {
				add(n.OpPos, n.OpPos+1, "")
			}
		case *ast.IfStmt:
			negate(n.Cond)
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				add(n.Pos(), n.End(), "")
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
			add(n.Pos(), n.End(), "")
		}
		return true
	}
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
			ast.Inspect(function.Body, visit)
		}
	}
	return all, nil
}
