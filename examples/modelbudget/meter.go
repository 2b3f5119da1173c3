package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// document reads an answer that is one JSON document, and settles for its usage at Close. An answer
// without a usage, or one that was not read to its end, costs the estimate.
type document struct {
	io.ReadCloser
	kept   bytes.Buffer
	settle func(tokens int64)
}

// maxKept is the longest document that is searched for a usage.
const maxKept = 4 << 20

func (d *document) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if d.kept.Len()+n <= maxKept {
		d.kept.Write(p[:n])
	}
	return n, err
}

func (d *document) Close() error {
	var answer chunk
	if json.Unmarshal(d.kept.Bytes(), &answer) == nil && answer.final() != nil {
		d.settle(answer.final().total())
	}
	return d.ReadCloser.Close()
}

// stream reads an answer of server-sent events one by one, and settles at Close for the reported usage.
// If the stream ended early, it settles for the input and a token per event.
type stream struct {
	body      io.Closer
	lines     *bufio.Reader
	input     int64 // estimated
	hideUsage bool
	settle    func(tokens int64)

	event  []byte // read so far
	ready  []byte // to return by Read
	err    error  // after ready
	events int64
	seen   usage
	final  bool // seen is the usage of the whole answer
}

func newStream(body io.ReadCloser, b *bill, settle func(tokens int64)) *stream {
	return &stream{
		body: body, lines: bufio.NewReaderSize(body, 64<<10),
		input: b.input, hideUsage: b.hideUsage, settle: settle,
	}
}

func (s *stream) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// mostOfEvent is the longest event that is searched for a usage.
const mostOfEvent = 1 << 20

// next reads a line. An empty line ends an event.
func (s *stream) next() {
	begins := len(s.event) == 0 || s.event[len(s.event)-1] == '\n'
	line, err := s.lines.ReadSlice('\n')
	s.event = append(s.event, line...)
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a long line takes several reads
		s.err = err
	}
	ends := begins && len(bytes.TrimRight(line, "\r\n")) == 0
	if !ends && s.err == nil && len(s.event) < mostOfEvent {
		return
	}
	if s.look() {
		s.ready = s.event
	}
	s.event = nil
}

// look searches an event for a usage, and reports whether the client gets the event.
func (s *stream) look() bool {
	var data []byte
	for line := range bytes.Lines(s.event) {
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, text...)
		}
	}
	if len(data) == 0 {
		return true
	}
	s.events++
	var c chunk
	if !bytes.Contains(data, []byte(`"usage"`)) || json.Unmarshal(data, &c) != nil {
		return true
	}
	if u := c.final(); u != nil {
		s.seen.add(*u)
		s.final = true
		return !s.hideUsage || c.Choices == nil || len(*c.Choices) > 0
	}
	if c.Message != nil && c.Message.Usage != nil {
		s.seen.add(*c.Message.Usage)
	}
	return true
}

func (s *stream) Close() error {
	switch {
	case s.final:
		s.settle(s.seen.total())
	case s.seen.input() > 0:
		s.settle(s.seen.input() + max(s.seen.output(), s.events))
	default:
		s.settle(s.input + s.events)
	}
	return s.body.Close()
}
