// Paidapi shows five processes that share the quota of a paid API. The provider answers one request with
// 429 and Retry-After. Without a Pause, only the process that got it waits; the others go on, and the
// provider bans them all. With a Pause, all processes wait.
//
//	go run ./examples/paidapi    # with an in-memory Redis, or that of REDIS_URL
//
// Start to read at newClient in client.go.
package main

import (
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

const (
	processes = 5
	lasts     = 4 * time.Second // a run
)

// task is what a process of its own does. It gets it in taskEnv.
type task struct {
	Redis, URL, Name, Process string
	Pauses                    bool
}

const taskEnv = "PAIDAPI_TASK"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "paidapi:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if text := os.Getenv(taskEnv); text != "" {
		var t task
		if err := json.Unmarshal([]byte(text), &t); err != nil {
			return err
		}
		return runWorker(t)
	}
	f := flag.NewFlagSet("paidapi", flag.ContinueOnError)
	f.SetOutput(out)
	picture := f.String("svg", "", "write a picture to this `file`")
	if err := f.Parse(args); err != nil {
		return err
	}
	redis := os.Getenv("REDIS_URL")
	if redis == "" {
		server, err := miniredis.Run()
		if err != nil {
			return err
		}
		server.ClockTTL(true) // its keys expire
		defer server.Close()
		redis = "redis://" + server.Addr()
	}
	_, err := fmt.Fprintf(out, "A column is 50 ms. %q is a served request, %q one refused with 429, %q one by a ban.\n\n",
		served, refused, banned)
	if err != nil {
		return err
	}
	var text string
	for _, pauses := range []bool{false, true} {
		events, err := compete(redis, pauses)
		if err != nil {
			return err
		}
		shown := show(events, pauses)
		if _, err := io.WriteString(out, shown); err != nil {
			return err
		}
		text += shown
	}
	if *picture != "" {
		return os.WriteFile(*picture, []byte(draw(text)), 0o644)
	}
	return nil
}

// compete has the processes call a provider, and returns what that saw.
func compete(redis string, pauses bool) ([]event, error) {
	provider := &provider{start: time.Now()}
	server := httptest.NewServer(provider)
	defer server.Close()
	name := "paidapi:" + rand.Text()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for i := range processes {
		text, err := json.Marshal(task{redis, server.URL, name, strconv.Itoa(i + 1), pauses})
		if err != nil {
			return nil, err
		}
		worker := exec.Command(program)
		worker.Env = append(os.Environ(), taskEnv+"="+string(text))
		worker.Stderr = os.Stderr
		input, err := worker.StdinPipe()
		if err != nil {
			return nil, err
		}
		if err := worker.Start(); err != nil {
			return nil, err
		}
		defer func() {
			_ = input.Close() // it ends
			_ = worker.Wait()
		}()
	}
	for len(provider.seen()) == 0 { // processes begin
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(lasts)
	return provider.seen(), nil
}

func connect(url string) (rueidis.Client, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	option.DisableCache = true // an in-memory Redis has none
	return rueidis.NewClient(option)
}
