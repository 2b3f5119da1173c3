package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// childEnv makes the program a slow link to the address in it. The link is a process of its own, so
// that its cost does not count as a client's.
const childEnv = "BENCHMARK_CHILD"

type child struct {
	addr  string
	cmd   *exec.Cmd
	stdin io.Closer
}

// openLink starts a slow link to an address.
func openLink(target string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+target)
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
		return nil, errors.Join(fmt.Errorf("the link did not start: %w", err), c.close())
	}
	c.addr = strings.TrimSpace(line)
	return c, nil
}

func (c *child) close() error { return errors.Join(c.stdin.Close(), c.cmd.Wait()) }
