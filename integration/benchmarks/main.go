// Command benchmarks measures this library beside Redisson and other limiters, in turn, on one
// Redis that it starts itself.
//
//	make bench                      all of it, written to docs/performance/tables.md; go run ./integration/benchmarks does the same
//	go run ./integration/benchmarks -quick      a short run of the most telling part, printed
//
// Another state of the library is measured by the same program where a workspace puts its checkout
// in place of this one. If a call that the program uses has changed since, edit the program. The
// oracle of the tests is this checkout's in any case:
//
//	git worktree add ../before COMMIT
//	sed -e '/^\t\.$/d; /^\t\.\/[^i]/d; s,=> \./,=> ../before/,' go.work > before.work
//	GOWORK=$PWD/before.work go run ./integration/benchmarks -out before
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	if target := os.Getenv(childEnv); target != "" {
		exit(serveLink(target))
	}
	exit(run(os.Args[1:]))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(args []string) error {
	flags := flag.NewFlagSet("benchmarks", flag.ExitOnError)
	quick := flags.Bool("quick", false,
		"a short run: this library, Redisson's script and an empty script; nothing is written")
	rounds := flags.Int("rounds", 5, "rounds; in each every contender has its turn")
	seconds := flags.Float64("seconds", 0.4, "how long a contender is measured in each round")
	warmup := flags.Float64("warmup", 0.15, "seconds that a contender runs before it is measured")
	only := flags.String("only", "", "contenders to measure, by comma: "+keys(contenders))
	part := flags.String("part", "", "parts to measure, by comma: "+strings.Join(partNames(), ", "))
	grants := flags.Int("grants", 1_000_000, "how many grants expire at once, and how many the memory is measured of")
	out := flags.String("out", "",
		"folder in which performance/tables.md and its plots are written; docs where nothing is left out, else they are printed")
	callers := flags.String("callers", "", "numbers of callers to measure, by comma")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *quick {
		setUnless(flags, "rounds", func() { *rounds = 3 })
		setUnless(flags, "only", func() { *only = "ours,script,empty" })
		setUnless(flags, "part", func() { *part = "granting,denying,link,script" })
	}
	p := plan{only: list(*only), parts: list(*part), callers: list(*callers), grants: *grants}
	if err := p.check(); err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b, err := openBench(ctx)
	if err != nil {
		return err
	}
	b.rounds = *rounds
	b.length = time.Duration(*seconds * float64(time.Second))
	b.warmup = time.Duration(*warmup * float64(time.Second))
	r, err := p.run(ctx, b)
	if err := errors.Join(err, b.close()); err != nil {
		return err
	}
	r.Command = "make bench"
	if len(args) > 0 {
		r.Command = strings.Join(append([]string{"go run ./integration/benchmarks"}, args...), " ")
	}
	everything := len(p.only)+len(p.parts)+len(p.callers) == 0
	switch {
	case *out == "" && everything:
		if *out, err = docs(); err != nil {
			return err
		}
		fallthrough
	case *out != "":
		err = r.write(*out)
	default:
		var text string
		text, err = r.document()
		fmt.Print(text)
	}
	return errors.Join(err, r.refusals())
}

// docs is the folder of the repository's documents.
func docs() (string, error) {
	_, self, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(self)))
	if _, err := os.Stat(filepath.Join(root, "go.work")); err != nil {
		return "", fmt.Errorf("the repository is not where this program was compiled, name a folder with -out: %w", err)
	}
	return filepath.Join(root, "docs"), nil
}

// refusals returns an error if a run of this library, or of one that it is compared with, did not
// have the expected result.
func (r *results) refusals() error {
	var errs []error
	for _, run := range r.runs {
		for _, key := range append([]string{"cached", "observed"}, references...) {
			if why := run.refused(key); why != "" {
				errs = append(errs, fmt.Errorf("%s, %s: not reported: %s", run.title, key, why))
			}
		}
	}
	for _, c := range r.crowds {
		for _, f := range c.figures["ours"] {
			if f.refused != "" {
				errs = append(errs, fmt.Errorf("waiting callers, %s: not reported: %s", c.name, f.refused))
			}
		}
	}
	return errors.Join(errs...)
}

func setUnless(flags *flag.FlagSet, name string, set func()) {
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		set()
	}
}

func list(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
}

func keys(all []contender) string {
	var names []string
	for _, s := range all {
		names = append(names, s.key)
	}
	return strings.Join(names, ", ")
}
