// Command benchreport reads the output of the benchmarks, in rounds, and prints which line is below
// its floor, and the tables:
//
//	go run ./integration/tools/benchreport bin/bench.txt
//	go run ./integration/tools/benchreport -docs docs bin/bench.txt      writes the tables into the pages, and pictures
//	go run ./integration/tools/benchreport -floors integration/tools/benchreport/floors.txt RUN RUN
//	                                                                     writes floors that both runs reach
//
// make bench runs both, and benchstat for a part. The lines "round: 1" to "round: n" separate the
// rounds: a ratio is of two figures of one round, which benchstat does not compare. The exit code is 1
// if a benchmark failed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	docs := flag.String("docs", "", "the folder of performance.md, which is written")
	renewed := flag.String("floors", "", "the file of the floors, which is written")
	flag.Parse()
	err := errors.New("no file of a run")
	switch {
	case *renewed != "":
		err = renew(*renewed, flag.Args())
	case flag.NArg() == 1:
		err = run(flag.Arg(0), *docs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, docs string) error {
	r, err := read(file)
	if err != nil {
		return err
	}
	checked := r.check(floors(floorsText))
	fmt.Print(floorTable(checked), "\n", verdict(checked), "\n")
	if docs != "" {
		if err := r.write(docs, checked); err != nil {
			return err
		}
	} else {
		for _, name := range r.names {
			fmt.Print("\n", r.titled(name))
		}
	}
	if len(r.failed) > 0 {
		return fmt.Errorf("not reported, since they failed:\n%s", strings.Join(r.failed, "\n"))
	}
	return nil
}

// renew writes the floors that all runs reach.
func renew(file string, runs []string) error {
	var all []*results
	for _, run := range runs {
		r, err := read(run)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	return os.WriteFile(file, []byte(renewed(floorsText, all)), 0o644)
}

// write writes the tables and the pictures, and the figures that performance.md repeats.
func (r *results) write(docs string, checked []checkedFloor) error {
	folder := filepath.Join(docs, "performance")
	if err := r.draw(folder); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "tables.md"), []byte(r.document(checked)), 0o644); err != nil {
		return err
	}
	page := filepath.Join(docs, "performance.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(r.withTables(withFigures(string(text), checked), verdict(checked))), 0o644)
}
