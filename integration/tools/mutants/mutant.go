package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is one edit of one file.
type mutant struct {
	edit
	file   string // from the root of the repository
	source string
}

// edit replaces source[start:end].
type edit struct {
	start, end int
	with       string
}

func (m mutant) line() int { return 1 + strings.Count(m.source[:m.start], "\n") }

func (m mutant) String() string {
	begin := strings.LastIndexByte(m.source[:m.start], '\n') + 1
	line, _, _ := strings.Cut(m.source[begin:], "\n")
	return fmt.Sprintf("%s:%d: %q -> %q in: %s", m.file, m.line(), m.source[m.start:m.end], m.with,
		strings.TrimSpace(line))
}

// tester runs the tests of packages in a copy of the repository.
type tester struct {
	root     string
	packages []string
	timeout  time.Duration
	all      bool   // tests go on after the first that fails
	without  string // a regular expression of tests that are to be removed
}

// quickTests runs tests of packages, except the golden texts: these detect any edit.
func (t *tester) quickTests(ctx context.Context, skip []string, args ...string) (output []byte, err error) {
	skipped := "-skip=" + strings.Join(append([]string{"^TestScripts_"}, skip...), "|")
	args = append([]string{"test", "-count=1", "-short", "-vet=off", skipped, fmt.Sprint("-failfast=", !t.all)}, args...)
	test := exec.CommandContext(ctx, "go", args...)
	test.Dir = t.root
	return test.CombinedOutput()
}

// measure returns what the tests cover, and how long they take.
func (t *tester) measure(ctx context.Context) (coverage, time.Duration, error) {
	profile := filepath.Join(t.root, "coverage.txt")
	args := append([]string{"-coverpkg=" + t.packages[0], "-coverprofile=" + profile, "-run=" + t.without}, t.packages...)
	if output, err := t.quickTests(ctx, nil, args...); err != nil {
		return nil, 0, fmt.Errorf("the tests fail without an edit: %w: %s", err, output)
	}
	content, err := os.ReadFile(profile)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now() // with everything compiled
	_, err = t.quickTests(ctx, nil, append([]string{"-run=" + t.without}, t.packages...)...)
	return parseCoverage(string(content)), time.Since(began), err
}

const notCompiled = "does not compile"

// notNeeded stands for the tests that stay, if those to be removed do not detect a mutant.
const notNeeded = "none of the tests to be removed"

// test returns the tests that detect the mutant: the first of them, or all.
func (t *tester) test(ctx context.Context, m mutant) (killers []string, err error) {
	file := filepath.Join(t.root, m.file)
	if err := os.WriteFile(file, []byte(m.source[:m.start]+m.with+m.source[m.end:]), 0o644); err != nil {
		return nil, err
	}
	if t.without == "" {
		killers, err = t.detect(ctx, m)
	} else if killers, err = t.detect(ctx, m, "-run="+t.without); len(killers) == 0 {
		killers = []string{notNeeded}
	} else if err == nil && !slices.Contains(killers, notCompiled) {
		killers, err = t.detect(ctx, m, "-timeout=10m", "-skip=^TestScripts_|"+t.without)
	}
	return killers, cmp.Or(err, ctx.Err(), os.WriteFile(file, []byte(m.source), 0o644))
}

// detect runs the tests with a mutant in place.
func (t *tester) detect(ctx context.Context, m mutant, args ...string) (killers []string, err error) {
	args = append([]string{"-json", "-timeout=" + t.timeout.String()}, args...)
	for _, folder := range t.packages {
		var found []string
		for again := true; again; { // the others, if a test ended the program
			output, failure := t.quickTests(ctx, found, append(args, folder)...)
			tests, ended := failed(output)
			switch {
			case failure == nil:
			case strings.Contains(string(output), "[build failed]"):
				return []string{notCompiled}, nil
			case len(tests) == 0:
				return nil, fmt.Errorf("%s: the tests fail without a failed test: %s", m, output)
			}
			for _, test := range tests {
				found = append(found, "^"+test+"$")
				killers = append(killers, folder+" "+test)
			}
			again = t.all && ended && len(tests) > 0
		}
		if len(killers) > 0 && !t.all {
			break
		}
	}
	return killers, nil
}

// coverage has, by the base name of a file, the lines of statements that the tests run.
type coverage map[string]map[int]bool

var block = regexp.MustCompile(`(?m)([^/\n]+\.go):(\d+)\.\d+,(\d+)\.\d+ \d+ [1-9]\d*$`)

func parseCoverage(profile string) coverage {
	c := coverage{}
	for _, match := range block.FindAllStringSubmatch(profile, -1) {
		lines := c[match[1]]
		if lines == nil {
			lines = map[int]bool{}
			c[match[1]] = lines
		}
		var first, last int
		_, _ = fmt.Sscan(match[2]+" "+match[3], &first, &last)
		for line := first; line <= last; line++ {
			lines[line] = true
		}
	}
	return c
}

func (c coverage) has(m mutant) bool { return c[filepath.Base(m.file)][m.line()] }
