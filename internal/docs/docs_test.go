// Package docs tests the documentation.
package docs

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
)

// root is the folder of the repository.
const root = "../.."

// TestDocumentation_Readme_ProgramRuns: its first block of Go is a whole program, which runs on a
// Redis in memory in place of that on localhost.
func TestDocumentation_Readme_ProgramRuns(t *testing.T) {
	readme := golden.Text(t, root+"/README.md")
	assert.LessOrEqual(t, strings.Count(readme, "\n"), 110)
	redis := miniredis.RunT(t)
	redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command == "CLIENT" { // which miniredis does not have
			c.WriteOK()
		}
		return command == "CLIENT"
	})
	program := golden.Code(readme, "go")[0]
	require.Contains(t, program, "localhost:6379")
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(program, "localhost:6379", redis.Addr(), 1)), 0o600))
	run := exec.Command("go", "run", file)
	run.Dir = root
	output, err := run.CombinedOutput()
	require.NoError(t, err, "%s", output)
	assert.Equal(t, strings.Repeat("true <nil>\n", 3)+"false <nil>\n", string(output))
}

// TestDocumentation_Code_RunsInExamples: each line of the other Go code of the README, and of the
// hook of docs/production.md.
func TestDocumentation_Code_RunsInExamples(t *testing.T) {
	t.Chdir(root)
	for page, examples := range map[string][]string{ // a block each, behind the first one
		"README.md":          {"limit/example_test.go", "httplimit/example_test.go"},
		"docs/production.md": {"example_test.go", "otellimit/example_test.go"},
	} {
		blocks := golden.Code(golden.Text(t, page), "go")[1:]
		require.Len(t, blocks, len(examples))
		for i, file := range examples {
			example := golden.Text(t, file)
			for line := range strings.Lines(blocks[i]) {
				line = strings.TrimSpace(line)
				assert.True(t, line == "return err" || strings.Contains(example, line), line)
			}
		}
	}
}

// TestDocumentation_Pages_AreShort: a page has at most 250 lines, and no page of users links to one of
// maintainers.
func TestDocumentation_Pages_AreShort(t *testing.T) {
	t.Chdir(root)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	maintainers := []string{"docs/measurements.md"}
	for _, page := range append(pages, "README.md") {
		text := golden.Text(t, page)
		assert.LessOrEqual(t, strings.Count(text, "\n"), 250, page)
		if slices.Contains(maintainers, page) {
			assert.True(t, strings.Contains(golden.Text(t, "CONTRIBUTING.md"), page), page)
			continue
		}
		assert.NotContains(t, markdownLink.FindAllString(text, -1), "](measurements.md)", page)
	}
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocumentation_LocalLinks_Resolve: each link of a page to a file or a heading of the
// repository.
func TestDocumentation_LocalLinks_Resolve(t *testing.T) {
	t.Chdir(root)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	examples, err := filepath.Glob("examples/*/README.md")
	require.NoError(t, err)
	links := 0
	for _, page := range slices.Concat(pages, examples, []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) {
		for _, match := range markdownLink.FindAllStringSubmatch(golden.Text(t, page), -1) {
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
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(golden.Text(t, target), -1) {
				name := notInAnchor.ReplaceAllString(strings.ToLower(h[1]), "")
				anchors = append(anchors, strings.ReplaceAll(name, " ", "-"))
			}
			assert.Contains(t, anchors, anchor, "%s links to %s", page, link)
		}
	}
	assert.Greater(t, links, 30)
}

var (
	codeFile = regexp.MustCompile("`([\\w./-]+\\.(?:go|lua))`")
	testName = regexp.MustCompile("`(Test\\w+)`")
)

var (
	// A name of Go in backquotes: of a function, a type, or a method or field behind its type or package.
	goName     = regexp.MustCompile("`((?:[A-Za-z]\\w*\\.)?[A-Za-z]\\w*)`")
	inFile     = regexp.MustCompile("((?:`[\\w.]+`(?:, | and )?)+) in `([\\w./-]+\\.go)`")
	declaredGo = regexp.MustCompile(`(?m)^(?:func (?:\(\w* ?\*?(\w+)(?:\[[^\]]*\])?\) )?|type |\t)(\w+)[ \[(,]`)
)

// TestDocumentation_Architecture_NamesExist: each function, type and field that the architecture page names, and in
// the file that it names.
func TestDocumentation_Architecture_NamesExist(t *testing.T) {
	t.Chdir(root)
	names := make(map[string]bool)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			names[entry.Name()] = true
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			for _, d := range declaredGo.FindAllStringSubmatch(golden.Text(t, path), -1) {
				names[d[2]], names[d[1]+"."+d[2]] = true, true
			}
		}
		return nil
	}))
	page := golden.Text(t, "docs/architecture.md")
	for _, m := range goName.FindAllStringSubmatch(page, -1) {
		of, name, qualified := strings.Cut(m[1], ".")
		switch {
		case strings.HasPrefix(m[1], "Test") || slices.Contains([]string{"go", "lua"}, name):
		case qualified && !names[of+"."+name]: // a field, or a function of a package
			assert.True(t, names[of] && names[name], m[1])
		case !qualified:
			assert.True(t, names[m[1]], m[1])
		}
	}
	for _, m := range inFile.FindAllStringSubmatch(page, -1) {
		source := golden.Text(t, m[2])
		for _, name := range goName.FindAllStringSubmatch(m[1], -1) {
			_, last, qualified := strings.Cut(name[1], ".")
			if !qualified {
				last = name[1]
			}
			assert.True(t, regexp.MustCompile(`\b`+last+`\b`).MatchString(source), "%s in %s", name[1], m[2])
		}
	}
}

// TestDocumentation_FilesAndTests_Exist: each source file that the architecture page names, and
// each test that a page names.
func TestDocumentation_FilesAndTests_Exist(t *testing.T) {
	t.Chdir(root)
	for _, file := range codeFile.FindAllStringSubmatch(golden.Text(t, "docs/architecture.md"), -1) {
		assert.FileExists(t, file[1])
	}
	tests := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, test := range declared.FindAllStringSubmatch(golden.Text(t, path), -1) {
			tests[test[1]] = true
		}
		return nil
	}))
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		for _, test := range testName.FindAllStringSubmatch(golden.Text(t, page), -1) {
			known := tests[test[1]] || slices.ContainsFunc(slices.Collect(maps.Keys(tests)), func(name string) bool {
				return strings.HasPrefix(name, test[1]+"_")
			})
			assert.True(t, known, "%s names %s", page, test[1])
		}
	}
}

// TestDocumentation_ProductionUser_HasTheRightsOfALimiter: those that docs/compatibility.md has for all calls, rates and
// waiters. Without one, the Clients may get unequal shares without an error.
func TestDocumentation_ProductionUser_HasTheRightsOfALimiter(t *testing.T) {
	user := golden.Between(t, golden.Text(t, root+"/docs/production.md"), "ACL SETUSER shop", "redis-cli")
	rights := golden.Text(t, root+"/docs/compatibility.md")
	all := golden.Between(t, rights, "## Rights", "- for `WithServerTime`")
	waiters := golden.Between(t, rights, "Callers that wait for a limiter, of Redisson's layout too, need", " on such a key")
	commands := regexp.MustCompile("`([A-Z]+)`").FindAllStringSubmatch(all+waiters, -1)
	require.Greater(t, len(commands), 25)
	for _, command := range commands {
		assert.Contains(t, strings.Fields(user), "+"+strings.ToLower(command[1]))
	}
}
