package rratelimiter

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheReadmeShowsTheExample: each line of its Go code runs in example_test.go.
func TestTheReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "```")
	_, code, found = strings.Cut(code, "}\n") // how to connect is shown there in a comment
	require.True(t, found)
	for line := range strings.Lines(code) {
		assert.Contains(t, string(example), strings.TrimSpace(line))
	}
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocumentation_LocalLinks_Resolve: each link of a page to a file or a heading of the repository.
func TestDocumentation_LocalLinks_Resolve(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	examples, err := filepath.Glob("examples/*/README.md")
	require.NoError(t, err)
	links := 0
	for _, page := range slices.Concat(pages, examples, []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			link := match[1]
			if strings.Contains(link, "://") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(link, "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); !assert.NoError(t, err, "%s links to %s", page, link) || anchor == "" {
				continue
			}
			linked, err := os.ReadFile(target)
			require.NoError(t, err)
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(string(linked), -1) {
				name := notInAnchor.ReplaceAllString(strings.ToLower(h[1]), "")
				anchors = append(anchors, strings.ReplaceAll(name, " ", "-"))
			}
			assert.Contains(t, anchors, anchor, "%s links to %s", page, link)
		}
	}
	assert.Greater(t, links, 30)
}
