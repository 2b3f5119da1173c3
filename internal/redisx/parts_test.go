package redisx

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParts_Text_IncludesPartsAndDropsComments(t *testing.T) {
	parts := ParseParts(`-- Ignored.
ignored()
--@ first  in: a  out: b
-- A comment.
local b = a -- kept

if b then
  --@include second
end
--@ second
  return b
`)
	assert.Equal(t, "local b = a -- kept\nif b then\n    return b\nend\n", parts.Text("first"))
	assert.PanicsWithValue(t, "redisx: no part third", func() { parts.Text("third") })
}
