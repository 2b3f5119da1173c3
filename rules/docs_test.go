package rules

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/rules.md shows testdata/rules.yaml.
func TestPage_File_HasEveryField(t *testing.T) {
	page, err := os.ReadFile("../docs/rules.md")
	require.NoError(t, err)
	file, err := os.ReadFile("testdata/rules.yaml")
	require.NoError(t, err)
	assert.Contains(t, string(page), "```yaml\n"+string(file)+"```\n")
	s, err := Load("testdata/rules.yaml")
	require.NoError(t, err)
	assert.Equal(t, 7, s.Len())
	fields := [][]string{policyNames()}
	for _, place := range places {
		fields = append(fields, fieldsAt(t, place))
	}
	for _, fields := range fields {
		for _, field := range fields {
			assert.Contains(t, string(file), field)
			assert.Contains(t, string(page), "`"+field, "docs/rules.md does not describe it")
		}
	}
	_, block, _ := strings.Cut(string(page), "```console\n")
	block, _, _ = strings.Cut(block, "```")
	_, err = Parse("rules.yaml", []byte("rules:\n  - name: login\n    match: post /login\n    key: ip\n    limits: 5/mn\n    overides: []\n"))
	require.Error(t, err)
	assert.Equal(t, strings.TrimSpace(block), err.Error())
}
