package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGoEdits_OfEachKind_LeaveDeclarations(t *testing.T) {
	const source = `package p

const a = 1 + 2

func f(n int, ok bool) {
	for n < 1 {
		n = -n
		m := n
		defer f(m, !ok)
	}
	if ok && n == 2 {
		return
	}
}
`
	edits, err := goEdits(source)
	require.NoError(t, err)
	var edited []string
	for _, e := range edits {
		edited = append(edited, source[e.start:e.end]+" -> "+e.with)
	}
	assert.ElementsMatch(t, []string{
		"< -> <=", "n = -n -> ", "- -> ", "defer f(m, !ok) -> ", "! -> ", "&& -> ||", " -> !", "== -> !=",
	}, edited)
}

func TestCoverage_Blocks_HaveTheirLines(t *testing.T) {
	c := parseCoverage("mode: set\nexample.com/p/a.go:3.2,4.9 2 1\nexample.com/p/a.go:6.2,6.9 1 0\n")
	const source = "1\n2\n3\n4\n5\n6"
	var covered []string
	for at := 0; at < len(source); at += 2 {
		if c.has(mutant{file: "p/a.go", source: source, edit: edit{start: at}}) {
			covered = append(covered, source[at:at+1])
		}
	}
	assert.Equal(t, []string{"3", "4"}, covered)
}
