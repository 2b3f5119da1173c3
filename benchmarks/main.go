// Command benchmarks measures this library beside Redisson and other limiters, in turn, on one Redis that it starts itself.
//
//	go run ./benchmarks/...                 all of it, written to docs/performance.md
//	go run ./benchmarks/... -quick          a short run of the most telling part, printed
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	if target := os.Getenv(linkEnv); target != "" {
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
	quick := flags.Bool("quick", false, "a short run: this library, Redisson's script and an empty script; nothing is written")
	rounds := flags.Int("rounds", 5, "rounds; in each every side has its turn")
	seconds := flags.Float64("seconds", 1, "how long a side is measured in each round")
	warmup := flags.Float64("warmup", 0.3, "seconds that a side runs before it is measured")
	only := flags.String("only", "", "sides to measure, by comma: "+keys(sides))
	part := flags.String("part", "", "parts to measure, by comma: "+strings.Join(partNames(), ", "))
	callers := flags.String("callers", "", "numbers of callers to measure, by comma")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *quick {
		setUnless(flags, "rounds", func() { *rounds = 3 })
		setUnless(flags, "seconds", func() { *seconds = 0.5 })
		setUnless(flags, "only", func() { *only = "ours,script,empty" })
		setUnless(flags, "part", func() { *part = "granting,denying,link,script" })
	}
	p := plan{only: list(*only), parts: list(*part), callers: list(*callers)}
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
	return errors.Join(p.run(ctx, b), b.close())
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

func keys(all []side) string {
	var names []string
	for _, s := range all {
		names = append(names, s.key)
	}
	return strings.Join(names, ", ")
}
