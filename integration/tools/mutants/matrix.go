package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// matrix has the tests that detect each mutant.
type matrix [][]string

// spare returns tests without which each mutant is still detected, and the lines of each: the longest tests first. A
// test is a folder and a name.
func (m matrix) spare(lines map[string]int) (all []string) {
	detectors, detected := make([]int, len(m)), map[string][]int{}
	for i, tests := range m {
		detectors[i] = len(tests)
		for _, test := range tests {
			detected[test] = append(detected[test], i)
		}
	}
	for test := range lines {
		all = append(all, test)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(lines[b]-lines[a], strings.Compare(a, b)) })
	return slices.DeleteFunc(all, func(test string) bool {
		if slices.ContainsFunc(detected[test], func(i int) bool { return detectors[i] == 1 }) {
			return true
		}
		for _, i := range detected[test] {
			detectors[i]--
		}
		return false
	})
}

// print prints the tests to spare, with the number of the mutants that each detects.
func (m matrix) print(lines map[string]int) {
	sum := 0
	for _, test := range m.spare(lines) {
		detected := 0
		for _, tests := range m {
			if slices.Contains(tests, test) {
				detected++
			}
		}
		sum += lines[test]
		fmt.Printf("spare: %d lines, detects %d: %s\n", lines[test], detected, test)
	}
	fmt.Printf("%d lines of tests are not needed to detect these %d edits\n", sum, len(m))
}

// testLines returns the lines of each test function, with its comment, of folders.
func testLines(root string, folders []string) (map[string]int, error) {
	lines := map[string]int{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			for _, declaration := range file.Decls {
				if f, ok := declaration.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
					begin := f.Pos()
					if f.Doc != nil {
						begin = f.Doc.Pos()
					}
					lines[folder+" "+f.Name.Name] = 1 + set.Position(f.End()).Line - set.Position(begin).Line
				}
			}
		}
	}
	return lines, nil
}

// failed returns the tests that failed by the events of go test -json, and whether one ended the program before the
// others ran.
func failed(events []byte) (tests []string, ended bool) {
	for line := range bytes.Lines(events) {
		var e struct{ Action, Test, Output string }
		_ = json.Unmarshal(line, &e) // what is no event is output of a build
		died := strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ")
		ended = ended || died && !strings.Contains(e.Output, "test timed out")
		test, _, _ := strings.Cut(e.Test, "/")
		if test != "" && (died || e.Action == "fail") && !slices.Contains(tests, test) {
			tests = append(tests, test)
		}
	}
	return tests, ended
}
