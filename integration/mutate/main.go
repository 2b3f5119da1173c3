// Command mutate tries small edits of the library, one at a time, and says which test fails with each: one of the root package or
// of internal, or for an edit of a door, of package limit or of rules one of theirs. The lists of testdata/mutations say which one should,
// which edits another suite sees, and which are no defect. It fails where an edit that a test should kill survives, or where one
// no longer applies. With -suites it tries the edits that another suite sees instead, each with that suite.
//
//	go run ./mutate [-suites] [-run regexp] [-skip regexp] [-only text] [list ...]
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// atOnce is how many edits are tried at a time. Tests whose clock is their own do not mind a busy machine.
const atOnce = 2

func main() {
	root := flag.String("root", "..", "folder of the library")
	skip := flag.String("skip", "", "tests that are not run, to try new edits without the slow ones")
	runs := flag.String("run", "", "tests that are run, likewise")
	only := flag.String("only", "", "try the edits whose line of output would contain this")
	suites := flag.Bool("suites", false, "try the edits that another suite sees, with that suite alone, one at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, trial{root: *root, runs: *runs, skip: *skip, suites: *suites}, *only, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, as trial, only string, lists []string) error {
	root, err := filepath.Abs(as.root)
	if err != nil {
		return err
	}
	if len(lists) == 0 {
		if lists, err = filepath.Glob(filepath.Join(root, "testdata", "mutations", "*.txt")); err != nil || len(lists) == 0 {
			return fmt.Errorf("no lists of edits in %s", root)
		}
	}
	var edits []edit
	for _, list := range lists {
		found, err := readList(list)
		if err != nil {
			return err
		}
		for _, e := range found {
			if strings.Contains(e.String(), only) && (!as.suites || e.suite != "") {
				edits = append(edits, e)
			}
		}
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()

	var said tally
	var next sync.Mutex
	var workers sync.WaitGroup
	parallel := atOnce
	if as.suites {
		parallel = 1 // they have real servers and real time
	}
	for worker := range parallel {
		t := as
		t.root, t.folder = root, filepath.Join(work, fmt.Sprint(worker))
		workers.Go(func() {
			for {
				next.Lock()
				if len(edits) == 0 || ctx.Err() != nil {
					next.Unlock()
					return
				}
				e := edits[0]
				edits = edits[1:]
				next.Unlock()
				said.add(e, t.try(ctx, e))
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return said.end(as.suites)
}

// tally is what came out so far.
type tally struct {
	mu                              sync.Mutex
	killed, survived, elsewhere, no int // of what matters: by the root suite, by none, by another suite; and no defects
	wrong                           int // that are not as the lists say
}

// add says what became of an edit.
func (t *tally) add(e edit, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wrong := ""
	switch {
	case o.err != nil:
		wrong = o.err.Error()
	case o.suite && o.test != "":
		t.elsewhere++
		fmt.Printf("%s\n\tkilled by %s of suite %s\n", e, o.test, e.suite)
	case o.suite:
		t.survived++
		wrong = "SURVIVED, though the list says that it is killed by suite " + e.suite
	case o.test != "":
		t.killed++
		switch {
		case e.harmless != "":
			wrong = "killed by " + o.test + ", though the list has it as no defect"
		case e.killedBy == "" && e.suite == "":
			wrong = "killed by " + o.test + ", of which the list says nothing"
		case o.test != e.killedBy:
			fmt.Printf("%s\n\tkilled by %s, where the list says %s%s\n", e, o.test, e.killedBy, e.suite)
		default:
			fmt.Printf("%s\n\tkilled by %s\n", e, o.test)
		}
	case e.harmless != "":
		t.no++
		fmt.Printf("%s\n\tno defect: %s\n", e, e.harmless)
	case e.suite != "":
		t.elsewhere++
		fmt.Printf("%s\n\tsurvived; killed by suite %s\n", e, e.suite)
	case e.killedBy != "":
		t.survived++
		wrong = "SURVIVED, though the list says that it is killed by " + e.killedBy
	default:
		t.survived++
		wrong = "SURVIVED, of which the list says nothing"
	}
	if wrong != "" {
		t.wrong++
		fmt.Printf("%s\n\tWRONG: %s\n", e, wrong)
	}
}

func (t *tally) end(suites bool) error {
	matters := t.killed + t.survived + t.elsewhere
	if suites {
		fmt.Printf("\n%d of %d edits are killed by the suite that the lists name\n", t.elsewhere, matters)
	} else {
		fmt.Printf("\n%d of %d edits that matter are killed by the root suite, %.1f %%; %d more by other suites, %d are no defect\n",
			t.killed, matters, 100*float64(t.killed)/float64(max(matters, 1)), t.elsewhere, t.no)
	}
	if t.wrong > 0 {
		return fmt.Errorf("%d edits are not as the lists say", t.wrong)
	}
	return nil
}

// trial runs tests with edits, one after another.
type trial struct {
	root, folder string
	runs, skip   string
	suites       bool
}

// outcome is the test that failed, "" where none did, or why that cannot be said.
type outcome struct {
	test  string
	suite bool // another suite was run
	err   error
}

// try runs the tests with an edit: first the one that should fail, then, where it does not, all.
func (t trial) try(ctx context.Context, e edit) outcome {
	path := filepath.Join(t.root, e.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return outcome{err: err}
	}
	edited, err := e.apply(string(text))
	if err != nil {
		return outcome{err: err}
	}
	if err := os.MkdirAll(t.folder, 0o755); err != nil {
		return outcome{err: err}
	}
	// The file itself stays as it is: Go reads this one in its place.
	stand := filepath.Join(t.folder, filepath.Base(e.file))
	overlay := filepath.Join(t.folder, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: stand}})
	if err != nil {
		return outcome{err: err}
	}
	for name, content := range map[string][]byte{stand: []byte(edited), overlay: replace} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return outcome{err: err}
		}
	}
	if t.suites {
		module, suite, _ := strings.Cut(e.suite, "/")
		o := t.test(ctx, overlay, module, []string{"./" + suite}, "-timeout", "20m", "-run", t.runs, "-skip", t.skip)
		o.suite = true
		return o
	}
	module, quick := e.quick()
	alone := func(test string) outcome {
		return t.test(ctx, overlay, module, t.packagesOf(test, module, quick), "-run", "^"+regexp.QuoteMeta(test)+"$")
	}
	if e.killedBy != "" {
		if o := alone(e.killedBy); o != (outcome{}) {
			return o
		}
	}
	o := t.test(ctx, overlay, module, quick, "-run", t.runs, "-skip", t.skip)
	if o.test != "" && alone(o.test).test == "" {
		// It may be the machine that failed it, and no edit is to count for that.
		return outcome{err: fmt.Errorf("%s has failed with it once, and not by itself", o.test)}
	}
	return o
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// test runs the tests of packages, whose module is in a folder.
func (t trial) test(ctx context.Context, overlay, module string, tests []string, args ...string) outcome {
	args = append([]string{"test", "-json", "-failfast", "-count=1", "-vet=off", "-timeout", "120s", "-overlay", overlay}, args...)
	command := exec.CommandContext(ctx, "go", append(args, tests...)...)
	command.Dir = filepath.Join(t.root, module)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, failed := command.Output()
	if ctx.Err() != nil {
		return outcome{err: ctx.Err()}
	}
	if failed == nil {
		return outcome{}
	}
	// A test that takes the process down, or never ends, is one that began and of which nothing else is told.
	var test, said string
	running := make(map[string]string) // by package
	for text := range bytes.Lines(out) {
		var line event
		if json.Unmarshal(text, &line) != nil {
			continue
		}
		name, _, _ := strings.Cut(line.Test, "/")
		switch {
		case line.Action == "run":
			running[line.Package] = name
		case line.Action == "fail" && test == "":
			test = cmp.Or(name, running[line.Package])
		case line.Action == "output" || line.Action == "build-output":
			said += line.Output
		}
	}
	if test == "" {
		return outcome{err: fmt.Errorf("no test has run: %s%s", said, stderr.String())}
	}
	return outcome{test: test}
}
