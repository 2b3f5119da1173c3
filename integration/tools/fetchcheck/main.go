// Command fetchcheck takes the place of a user outside this repository. It packs each published
// module as its tag would, serves the modules from a folder as a module proxy, and fetches, builds
// and installs them from another folder. Run it in the root of the repository:
//
//	go run ./integration/tools/fetchcheck
//	go run ./integration/tools/fetchcheck -update        writes api/dependencies.txt
//	go run ./integration/tools/fetchcheck each CMD ...   runs CMD in each module, without go.work
//	go run ./integration/tools/fetchcheck published CMD ...   the same in the published modules
//
// The last two are for commands that ignore go.work, such as go mod tidy.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	update := flag.Bool("update", false, "write api/dependencies.txt")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *update, flag.Args())
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, update bool, args []string) error {
	dir, err := os.MkdirTemp("", "fetchcheck")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if len(args) > 1 {
		return each(ctx, root, dir, args[0] == "published", args[1:])
	}
	c := check{root: root, dir: dir, update: update, program: filepath.Join(root, consumerProgram)}
	began := time.Now()
	if err := c.run(ctx); err != nil {
		return err
	}
	log.Printf("fetchcheck: ok: %s in %.0f s", c.version, time.Since(began).Seconds())
	return nil
}

// startCommand runs the installed command, which has to name its version.
func (c *check) startCommand(ctx context.Context, program string) error {
	output, err := c.env.run(ctx, c.dir, program, "--version")
	if err == nil && !strings.Contains(output, c.version) {
		err = fmt.Errorf("fetchcheck: %s --version: %q is not %s", program, strings.TrimSpace(output), c.version)
	}
	return err
}

// each runs a command in each module or each published one, with the packed modules at hand. A
// module cache of its own keeps versions that no tag has out of the user's.
func each(ctx context.Context, root, dir string, published bool, command []string) error {
	modules, err := listModules(ctx, root)
	if err != nil {
		return err
	}
	version, err := commonVersion(modules)
	if err != nil {
		return err
	}
	env, err := serve(ctx, root, dir, modules, version)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if published && !m.published() {
			continue
		}
		output, err := env.run(ctx, m.Dir, command[0], command[1:]...)
		fmt.Print(output)
		if err != nil {
			return err
		}
	}
	return nil
}
