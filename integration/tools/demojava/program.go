package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The commands of the README of examples/java-and-go. The URL of the Redis follows.
const (
	javaCommand = "mvn --quiet compile exec:java -Dexec.args="
	goCommand   = "go run . "
)

// program is a running example program, which answers each command with a line.
type program struct {
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	errors  bytes.Buffer
}

func start(ctx context.Context, name, command string) (*program, error) {
	_, self, _, _ := runtime.Caller(0)
	words := strings.Fields(command)
	p := &program{name: name, command: exec.CommandContext(ctx, words[0], words[1:]...)}
	p.command.Dir = filepath.Join(filepath.Dir(self), "..", "..", "..", "examples", "java-and-go")
	p.command.Stderr, p.command.WaitDelay = &p.errors, 5*time.Second
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	p.answers = bufio.NewScanner(out)
	return p, p.command.Start()
}

// ask sends a command and returns the answer.
func (p *program) ask(command string, permits int) (string, error) {
	_, err := fmt.Fprintln(p.in, command, permits)
	if err == nil && p.answers.Scan() {
		return p.answers.Text(), nil
	}
	p.stop()
	err = cmp.Or(err, io.ErrUnexpectedEOF)
	return "", fmt.Errorf("%s program: no answer to %s: %w\n%s", p.name, command, err, p.errors.Bytes())
}

// stop ends the program: its input ends.
func (p *program) stop() {
	p.in.Close()
	_ = p.command.Wait()
}
