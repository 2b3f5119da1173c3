package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/alicebob/miniredis/v2"
)

// childEnv makes the program a server for benchmarks: "link ADDR" is a slow link to that address,
// "miniredis" an in-memory Redis. It has a process of its own, so that its cost does not count as a
// client's.
const childEnv = "BENCHMARK_CHILD"

type child struct {
	addr  string
	cmd   *exec.Cmd
	stdin io.Closer
}

func openChild(role string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+role)
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not start: %w", role, err), c.close())
	}
	c.addr = strings.TrimSpace(line)
	return c, nil
}

func (c *child) close() error { return errors.Join(c.stdin.Close(), c.cmd.Wait()) }

// serveChild is the child's process. It writes its address and ends with its standard input.
func serveChild(role string) error {
	name, target, _ := strings.Cut(role, " ")
	switch name {
	case "link":
		return serveLink(target)
	case "miniredis":
		server, err := miniredis.Run()
		if err != nil {
			return err
		}
		defer server.Close()
		fmt.Println(server.Addr())
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	default:
		return fmt.Errorf("%s=%q names no role", childEnv, role)
	}
}
