package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// linkEnv makes the program be a slow link to the address that it holds, instead of a benchmark. The link is a process of its own,
// so that what it costs is not counted as a client's.
const linkEnv = "BENCHMARK_LINK_TO"

// oneWay is how long the link takes a byte to the other end: half of its round trip.
const oneWay = time.Millisecond

type link struct {
	addr  string
	cmd   *exec.Cmd
	stdin io.Closer
}

func openLink(target string) (*link, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &link{cmd: exec.Command(self)}
	l.cmd.Env = append(os.Environ(), linkEnv+"="+target)
	l.cmd.Stderr = os.Stderr
	if l.stdin, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the slow link did not start: %w", err), l.close())
	}
	l.addr = strings.TrimSpace(line)
	return l, nil
}

func (l *link) close() error { return errors.Join(l.stdin.Close(), l.cmd.Wait()) }

// serveLink is the link's process. It ends with its standard input.
func serveLink(target string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			go pass(client, server)
			go pass(server, client)
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// parcel is what was read at once.
type parcel struct {
	due  time.Time
	data []byte
}

// pass hands on what comes from one end, each byte oneWay later.
func pass(from, to net.Conn) {
	parcels := make(chan parcel, 1024)
	go func() {
		defer close(parcels)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if n > 0 {
				parcels <- parcel{time.Now().Add(oneWay), data[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range parcels {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	// Either end that goes takes the other one with it; the reader above ends with its connection.
	_ = to.Close()
	_ = from.Close()
	for range parcels {
	}
}
