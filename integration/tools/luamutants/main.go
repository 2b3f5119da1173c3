// Command luamutants edits the Lua scripts, one edit at a time, and prints the edits that no quick
// test detects. It works on a copy of the repository. Run it in the folder integration:
//
//	go run ./tools/luamutants -n 40
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	sample := flag.Int("n", 0, "the number of mutants, chosen at random; 0 for all")
	seed := flag.Uint64("seed", 1, "the seed of the sample")
	timeout := flag.Duration("timeout", 3*time.Minute, "the time limit of the tests of one mutant")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *sample, *seed, *timeout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, sample int, seed uint64, timeout time.Duration) error {
	dir, err := os.MkdirTemp("", "luamutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyRepository(ctx, "..", dir); err != nil {
		return err
	}
	files := []string{filepath.Join(dir, "script.lua")}
	for _, folder := range []string{"scripts", "scripts/include", "limit", "limit/scripts", "limit/scripts/include"} {
		found, err := filepath.Glob(filepath.Join(dir, folder, "*.lua"))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	var all []mutant
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, e := range edits(string(source)) {
			all = append(all, mutant{edit: e, file: file, source: string(source)})
		}
	}
	for _, folder := range []string{dir, filepath.Join(dir, "limit")} {
		if output, ok := quickTests(ctx, folder, timeout); !ok {
			return fmt.Errorf("the tests fail without an edit: %s", output)
		}
	}
	total := len(all)
	if sample > 0 && sample < total {
		random := rand.New(rand.NewPCG(seed, 0))
		random.Shuffle(total, func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:sample]
	}
	lived := 0
	for i, m := range all {
		killer, err := m.test(ctx, timeout)
		if err != nil {
			return err
		}
		log.Printf("%d of %d: %s: %s", i+1, len(all), m.describe(dir), killer)
		if killer == "" {
			lived++
			fmt.Println("survivor:", m.describe(dir))
		}
	}
	fmt.Printf("%d of %d mutants survive; %d mutants exist\n", lived, len(all), total)
	return nil
}

// copyRepository copies the files that Git tracks, as they are in the work tree.
func copyRepository(ctx context.Context, from, to string) error {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--full-name")
	list.Dir = from
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue // deleted, not committed
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// quickTests runs the tests of a package, except the golden texts: these detect any edit.
func quickTests(ctx context.Context, folder string, timeout time.Duration) (output []byte, ok bool) {
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-short", "-failfast", "-vet=off",
		"-skip=^TestScripts_", "-timeout="+timeout.String(), ".")
	test.Dir = folder
	output, err := test.CombinedOutput()
	return output, err == nil
}

// mutant is one edit of one file.
type mutant struct {
	edit
	file   string
	source string
}

var failure = regexp.MustCompile(`--- FAIL: (\S+)|(test timed out)|(?m:^(panic: .*)$)`)

// test returns the test that detects the mutant, or "" if there is none.
func (m mutant) test(ctx context.Context, timeout time.Duration) (killer string, err error) {
	if err := os.WriteFile(m.file, []byte(m.source[:m.start]+m.with+m.source[m.end:]), 0o644); err != nil {
		return "", err
	}
	folder, _, _ := strings.Cut(filepath.Dir(m.file), string(filepath.Separator)+"scripts")
	output, ok := quickTests(ctx, folder, timeout)
	if err := cmp.Or(ctx.Err(), os.WriteFile(m.file, []byte(m.source), 0o644)); err != nil {
		return "", err
	}
	if ok {
		return "", nil
	}
	found := failure.Find(output)
	if found == nil {
		return "", fmt.Errorf("the tests of %s fail without a failed test: %s", m.file, output)
	}
	return string(bytes.TrimPrefix(found, []byte("--- FAIL: "))), nil
}

func (m mutant) describe(root string) string {
	name, err := filepath.Rel(root, m.file)
	if err != nil {
		name = m.file
	}
	begin := strings.LastIndexByte(m.source[:m.start], '\n') + 1
	line, _, _ := strings.Cut(m.source[begin:], "\n")
	return fmt.Sprintf("%s:%d: %q -> %q in: %s", filepath.ToSlash(name), 1+strings.Count(m.source[:m.start], "\n"),
		m.source[m.start:m.end], m.with, strings.TrimSpace(line))
}
