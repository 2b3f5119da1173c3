// Package suite starts the tests of a package with servers that all tests share.
package suite

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
)

// Main runs the tests of a package on what open starts. It ends when the last test has ended.
func Main(m *testing.M, open func(t testing.TB)) { os.Exit(run(open, m.Run)) }

func run(open func(t testing.TB), tests func() int) (code int) {
	t := &shared{}
	defer func() {
		if failure := recover(); failure != nil && failure != any(t) {
			panic(failure)
		}
		for _, end := range slices.Backward(t.ends) {
			end()
		}
		if t.failed {
			code = 1
		}
	}()
	open(t)
	code = tests()
	t.failed = code != 0
	return code
}

// shared is the part of testing.TB that the packages of integration/tools and oracle use.
type shared struct {
	testing.TB
	ends   []func()
	failed bool
}

func (t *shared) Helper()                  {}
func (t *shared) Name() string             { return "TestMain" }
func (t *shared) Context() context.Context { return context.Background() }
func (t *shared) Cleanup(end func())       { t.ends = append(t.ends, end) }
func (t *shared) Failed() bool             { return t.failed }

func (t *shared) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (t *shared) Errorf(format string, args ...any) {
	t.failed = true
	t.Logf(format, args...)
}

func (t *shared) FailNow() {
	t.failed = true
	panic(t)
}

func (t *shared) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}

func (t *shared) TempDir() string {
	dir, err := os.MkdirTemp("", "suite-")
	if err != nil {
		t.Fatalf("suite: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("suite: %v", err)
		}
	})
	return dir
}
