package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLuaEdits_OfEachKind_LeaveCommentsAndStrings(t *testing.T) {
	const source = `--@ part  in: a - 1
-- a < 1
if a < -1 then
  b = call('GET', KEYS[2]) - 7
end
local text = 'a + 1'
`
	var edited []string
	for _, e := range luaEdits(source) {
		edited = append(edited, source[e.start:e.end]+" -> "+e.with)
	}
	assert.ElementsMatch(t, []string{
		"< -> <=", "- -> ", "1 -> 2", "a < -1 -> true", "a < -1 -> false",
		"- -> +", "7 -> 8", "b = call('GET', KEYS[2]) - 7 -> ",
	}, edited)
}
