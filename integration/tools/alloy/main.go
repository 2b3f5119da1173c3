// Command alloy runs the commands of models in Alloy and prints what they explored. Maven fetches
// Alloy. Run it in the root of the repository:
//
//	go run ./integration/tools/alloy model/*.als
//	go run ./integration/tools/alloy -command Mistake model/*.als
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"time"
)

const (
	artifact = "org.alloytools:org.alloytools.alloy.dist:6.2.0"
	plugin   = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
)

func main() {
	log.SetFlags(0)
	pattern := flag.String("command", "*", "the commands to run, `*` for all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *pattern, flag.Args())
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, pattern string, models []string) error {
	dir, err := os.MkdirTemp("", "alloy")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := command(ctx, "mvn", "--quiet", "--batch-mode", plugin, "-Dartifact="+artifact,
		"-DoutputDirectory="+dir); err != nil {
		return fmt.Errorf("alloy: fetching %s needs Maven and a JDK: %w", artifact, err)
	}
	jars, err := filepath.Glob(filepath.Join(dir, "*.jar"))
	if err != nil || len(jars) != 1 {
		return fmt.Errorf("alloy: Maven copied %d files: %w", len(jars), err)
	}
	for _, model := range models {
		began := time.Now()
		results, err := explore(ctx, jars[0], filepath.Join(dir, "results"), model, pattern)
		for _, r := range results {
			fmt.Printf("%s: %s: %s\n", filepath.Base(model), r.Source, r.finding())
		}
		fmt.Printf("%s: %.0f s\n", filepath.Base(model), time.Since(began).Seconds())
		if err != nil {
			return fmt.Errorf("alloy: %s: %w", model, err)
		}
	}
	return nil
}

// result is what Alloy reports of a command.
type result struct {
	Type     string // "run" or "check"
	Source   string // the command with its bounds
	Solution []solution
}

type solution struct{ Instances []json.RawMessage }

func (r result) finding() string {
	found := slices.ContainsFunc(r.Solution, func(s solution) bool { return len(s.Instances) > 0 })
	switch {
	case r.Type == "run" && found:
		return "an example found"
	case r.Type == "run":
		return "no example"
	case found:
		return "a counterexample found"
	default:
		return "no counterexample"
	}
}

// explore runs commands of a model. It is an error if one finds what it does not expect, or the
// other way round.
func explore(ctx context.Context, jar, results, model, pattern string) ([]result, error) {
	failed := command(ctx, "java", "-jar", jar, "exec", "--command", pattern, "--solver", "glucose", "--force",
		"--output", results, model)
	text, err := os.ReadFile(filepath.Join(results, "receipt.json"))
	if err != nil {
		return nil, failed
	}
	var receipt struct{ Commands map[string]result }
	if err := json.Unmarshal(text, &receipt); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(receipt.Commands), func(a, b result) int {
		return cmp.Compare(a.Source, b.Source)
	}), failed
}

// command runs a command, whose output is a part of its error.
func command(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, output)
	}
	return nil
}
