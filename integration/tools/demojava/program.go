package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// The commands of the README of examples/java-and-go. The URL of the Redis follows.
var (
	javaCommand = []string{"mvn", "--quiet", "compile", "exec:java", "-Dexec.args="}
	goCommand   = []string{"go", "run", "."}
)

// program is a running example program, which answers each command with a line.
type program struct {
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	errors  bytes.Buffer
}

func startJava(ctx context.Context, url string) (*program, error) {
	last := len(javaCommand) - 1
	return startProgram(ctx, "Java", append(javaCommand[:last:last], javaCommand[last]+url))
}

func startGo(ctx context.Context, url string) (*program, error) {
	return startProgram(ctx, "Go", append(goCommand[:len(goCommand):len(goCommand)], url))
}

func startProgram(ctx context.Context, name string, command []string) (*program, error) {
	_, self, _, _ := runtime.Caller(0)
	p := &program{name: name, command: exec.CommandContext(ctx, command[0], command[1:]...)}
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
	if _, err := fmt.Fprintln(p.in, command, permits); err != nil {
		return "", p.failed(err)
	}
	if !p.answers.Scan() {
		return "", p.failed(io.ErrUnexpectedEOF)
	}
	return p.answers.Text(), nil
}

func (p *program) failed(err error) error {
	p.stop()
	return fmt.Errorf("%s program: %w\n%s", p.name, err, p.errors.Bytes())
}

// stop ends the program: its input ends.
func (p *program) stop() {
	p.in.Close()
	_ = p.command.Wait()
}
