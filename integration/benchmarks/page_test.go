package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each row of the page is a row of the targets, with the same figure.
func TestPerformancePage_Figures_AreThoseOfTheTables(t *testing.T) {
	page, err := os.ReadFile("../../docs/performance.md")
	require.NoError(t, err)
	tables, err := os.ReadFile("../../docs/performance/tables.md")
	require.NoError(t, err)
	measured := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^\| (.+) \| (?:at least|at most) \S+ \| (\S+) \|`).FindAllStringSubmatch(string(tables), -1) {
		measured[row[1]] = row[2]
	}
	_, figures, _ := strings.Cut(string(page), "## Figures")
	figures, _, _ = strings.Cut(figures, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| (.+:.+) \| (\S+) \|$`).FindAllStringSubmatch(figures, -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		if strings.HasPrefix(row[1], "---") {
			continue
		}
		require.Equal(t, measured[row[1]], row[2], row[1])
	}
}
