package oracle

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// request is a line to the Java program: a call with its arguments, whose types select its form, or
// a load with the numbers below.
type request struct {
	ID        int64      `json:"id"`
	Call      string     `json:"call"`
	Limiter   string     `json:"limiter,omitempty"`
	Args      []argument `json:"args,omitempty"`
	NameAfter bool       `json:"nameAfter,omitempty"` // the result is the name of the object after the call

	Permits        int64 `json:"permits,omitempty"`
	Millis         int64 `json:"millis,omitempty"`
	Threads        int   `json:"threads,omitempty"`
	Limiters       int   `json:"limiters,omitempty"`
	Async          bool  `json:"async,omitempty"`
	AcquireTimeout int64 `json:"acquireTimeoutMillis,omitempty"`
}

// argument is an argument of a call, with its type in Java.
type argument struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// unit is an argument for milliseconds, of a type in Java.
type unit string

// TimeUnit is the unit after a number of milliseconds.
const TimeUnit unit = "TimeUnit"

func argumentOf(value any) argument {
	switch v := value.(type) {
	case argument:
		return v
	case int64:
		return argument{"long", strconv.FormatInt(v, 10)}
	case time.Duration:
		return argument{"Duration", strconv.FormatInt(v.Milliseconds(), 10)}
	case time.Time:
		return argument{"Instant", strconv.FormatInt(v.UnixMilli(), 10)}
	case RateType:
		return argument{"RateType", string(v)}
	case unit:
		return argument{string(v), "MILLISECONDS"}
	default:
		return argument{"String", v.(string)}
	}
}

// answer is a line from the Java program: the first line, or the result of a request.
type answer struct {
	Ready      bool   `json:"ready"`
	Version    string `json:"version"`
	RedissonID string `json:"-"`

	ID          json.RawMessage `json:"id"` // a number, but in the first line the instance's id
	Result      json.RawMessage `json:"result"`
	Error       *string         `json:"error"`
	Class       string          `json:"class"`
	Unsupported *string         `json:"unsupported"`
}

func (r *Redisson) decode(a answer, result any) error {
	switch {
	case a.Unsupported != nil:
		return fmt.Errorf("redisson %s, %s: %w", r.version, *a.Unsupported, ErrUnsupported)
	case a.Error != nil:
		return &Error{Message: *a.Error, Class: a.Class}
	case result == nil:
		return nil
	default:
		return json.Unmarshal(a.Result, result)
	}
}

// read passes each line to its call, until the process ends.
func (r *Redisson) read(stdout io.Reader, ready chan<- answer) {
	err := r.dispatch(bufio.NewReader(stdout), ready)
	// A process that writes other lines is useless. Kill has no effect if the process has ended.
	_ = r.cmd.Process.Kill()
	waitErr := r.cmd.Wait()
	r.mu.Lock()
	r.failed = fmt.Errorf("redisson %s: %w: %w", r.version, ErrEnded, errors.Join(err, waitErr, errNoMoreAnswers))
	r.mu.Unlock()
	close(r.ended)
}

var errNoMoreAnswers = errors.New("no more answers")

func (r *Redisson) dispatch(lines *bufio.Reader, ready chan<- answer) error {
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("a line that is no answer: %w: %.200q", err, line)
		}
		if a.Ready {
			if err := json.Unmarshal(a.ID, &a.RedissonID); err != nil {
				return err
			}
			ready <- a
			continue
		}
		id, err := strconv.ParseInt(string(a.ID), 10, 64)
		if err != nil {
			return fmt.Errorf("an answer without a number: %.200q", line)
		}
		r.mu.Lock()
		waiting := r.pending[id]
		r.mu.Unlock()
		if waiting != nil {
			waiting <- a
		}
	}
}
