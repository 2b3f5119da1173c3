// Command mutants edits a package, one edit at a time, and prints the edits that no quick test
// detects. The tests are those of the package, and of other packages that are named after it. The seed
// chooses the order of the edits, and the last one is made before the time is over. It works on copies
// of the repository, one per processor. Run it in the root of the repository:
//
//	go run ./integration/tools/mutants -for 18m ./internal/guard/gate ./httplimit
//	go run ./integration/tools/mutants -lua ./limit
//
// With -matrix it runs all tests with each edit. In the end it prints which tests are not needed to detect the edits. With
// -without TestOne|TestTwo, the edits that it prints are those that only these tests detect.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

type settings struct {
	packages []string // folders with tests: the first one's files are edited
	lua      bool
	matrix   bool
	without  string
	limit    time.Duration
	seed     uint64
}

func main() {
	log.SetFlags(0)
	var s settings
	flag.BoolVar(&s.lua, "lua", false, "edit the Lua files of the package instead of its Go files")
	flag.BoolVar(&s.matrix, "matrix", false, "run all tests with each edit, and print those that are never the only one")
	flag.StringVar(&s.without, "without", "", "a regular expression of tests: print the edits that only these detect")
	flag.DurationVar(&s.limit, "for", 0, "the time for tests of mutants; 0 for as long as all of them take")
	flag.Uint64Var(&s.seed, "seed", 1, "the seed of the order")
	flag.Parse()
	s.packages = flag.Args()
	if len(s.packages) == 0 {
		log.Fatal("mutants: name a package: go run ./integration/tools/mutants ./limit")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings) error {
	began := time.Now()
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	copies := make([]*tester, runtime.NumCPU())
	for i := range copies {
		copies[i] = &tester{root: filepath.Join(dir, fmt.Sprint(i)), packages: s.packages, without: s.without}
		if err := copyRepository(ctx, copies[i].root); err != nil {
			return err
		}
	}
	covered, tests, err := copies[0].measure(ctx)
	if err != nil {
		return err
	}
	all, err := mutants(copies[0].root, s)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(s.seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

	log.Printf("%d edits, the tests took %s", len(all), tests.Round(time.Second))
	lines, err := testLines(".", s.packages)
	if err != nil {
		return err
	}
	// A processor has the tests of another mutant beside these.
	timeout := 10*time.Second + 3*tests

	queue := make(chan mutant)
	results := results{}
	var wait sync.WaitGroup
	for _, c := range copies {
		c.timeout, c.all = timeout, s.matrix
		wait.Go(func() {
			for m := range queue {
				if !s.lua && !covered.has(m) {
					if s.without == "" {
						results.add(m, nil, nil)
					}
					continue
				}
				killers, err := c.test(ctx, m)
				results.add(m, killers, err)
			}
		})
	}
	for _, m := range all {
		if ctx.Err() != nil || s.limit > 0 && time.Since(began) > s.limit {
			break
		}
		queue <- m
	}
	close(queue)
	wait.Wait()
	if s.matrix {
		results.matrix.print(lines)
	}
	fmt.Printf("%s: %d of %d mutants tested in %s, %d survive\n", s.packages[0], results.tested, len(all),
		time.Since(began).Round(time.Second), results.survive)
	return cmp.Or(ctx.Err(), results.err)
}

// mutants returns the mutants of the files of a package that Git tracks.
func mutants(root string, s settings) (all []mutant, err error) {
	folder := filepath.Join(root, s.packages[0])
	err = filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		name, extension := entry.Name(), filepath.Ext(file)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			// The scripts of a package are in a folder of it, other packages have their own tests.
			if file != folder && (!s.lua || name != "scripts" && name != "include") {
				return filepath.SkipDir
			}
			return nil
		case extension != ".go" && extension != ".lua" || s.lua != (extension == ".lua"), strings.HasSuffix(name, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		source := string(content)
		edits := luaEdits(source)
		if !s.lua {
			if edits, err = goEdits(source); err != nil {
				return err
			}
		}
		relative, err := filepath.Rel(root, file)
		for _, e := range edits {
			all = append(all, mutant{edit: e, file: filepath.ToSlash(relative), source: source})
		}
		return err
	})
	return all, err
}

// copyRepository copies the files that Git tracks, as they are in the work tree.
func copyRepository(ctx context.Context, to string) error {
	names, err := exec.CommandContext(ctx, "git", "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(name)
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

// results prints the survivors. What does not compile is no mutant.
type results struct {
	mu              sync.Mutex
	tested, survive int
	matrix          matrix
	err             error
}

func (r *results) add(m mutant, killers []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.err = cmp.Or(r.err, err)
		return
	case slices.Contains(killers, notCompiled):
		return
	case len(killers) == 0:
		r.survive++
		fmt.Println("survivor:", m)
	}
	r.tested++
	r.matrix = append(r.matrix, killers)
	log.Printf("%d: %s: %s", r.tested, m, strings.Join(killers, ", "))
}
