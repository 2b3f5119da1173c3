package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// document reads an answer that is one JSON document, and settles for its usage when it is closed. An answer that tells none, or that
// nobody has read to its end, costs what was estimated.
type document struct {
	io.ReadCloser
	kept   bytes.Buffer
	settle func(tokens int64)
}

// mostKept is the longest document whose usage is looked for.
const mostKept = 4 << 20

func (d *document) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if d.kept.Len()+n <= mostKept {
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

// stream reads an answer of server-sent events, each as soon as it is there, and settles when it is closed: for the usage that it
// told, or, where it ended before, for the input and a token for each event that came.
type stream struct {
	body      io.Closer
	lines     *bufio.Reader
	input     int64 // estimated
	hideUsage bool
	settle    func(tokens int64)

	event  []byte // as far as it has been read
	ready  []byte // to be handed out
	err    error  // behind ready
	events int64
	told   usage
	final  bool // told is of all
}

func newStream(body io.ReadCloser, b *bill, settle func(tokens int64)) *stream {
	return &stream{body: body, lines: bufio.NewReaderSize(body, 64<<10), input: b.input, hideUsage: b.hideUsage, settle: settle}
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

// mostOfEvent is the longest event whose usage is looked for.
const mostOfEvent = 1 << 20

// next reads a line. It ends an event where it is empty.
func (s *stream) next() {
	begins := len(s.event) == 0 || s.event[len(s.event)-1] == '\n'
	line, err := s.lines.ReadSlice('\n')
	s.event = append(s.event, line...)
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a long line is read in pieces
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

// look looks at an event, and says whether the client gets it.
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
		s.told.add(*u)
		s.final = true
		return !s.hideUsage || c.Choices == nil || len(*c.Choices) > 0
	}
	if c.Message != nil && c.Message.Usage != nil {
		s.told.add(*c.Message.Usage)
	}
	return true
}

func (s *stream) Close() error {
	switch {
	case s.final:
		s.settle(s.told.total())
	case s.told.input() > 0:
		s.settle(s.told.input() + max(s.told.output(), s.events))
	default:
		s.settle(s.input + s.events)
	}
	return s.body.Close()
}
