// Command benchreport reads the output of the benchmarks, in rounds, and prints which line is below
// its floor:
//
//	go run ./integration/tools/benchreport bin/bench.txt
//	go run ./integration/tools/benchreport -docs docs bin/bench.txt      also writes the pages and pictures
//
// make bench runs both, and benchstat for a part. The lines "round: 1" to "round: n" separate the
// rounds: a ratio is of two figures of one round, which benchstat does not compare. The exit code is 1
// if a benchmark failed.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	docs := flag.String("docs", "", "the folder of performance.md, which is written")
	flag.Parse()
	if err := run(flag.Arg(0), *docs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, docs string) error {
	r, err := read(file)
	if err != nil {
		return err
	}
	checked := r.check(floors())
	fmt.Print(floorTable(checked))
	if docs != "" {
		if err := r.write(docs, checked); err != nil {
			return err
		}
	}
	if len(r.failed) > 0 {
		return fmt.Errorf("not reported, since they failed:\n%s", strings.Join(r.failed, "\n"))
	}
	return nil
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
	return os.WriteFile(page, []byte(withFigures(string(text), checked)), 0o644)
}
