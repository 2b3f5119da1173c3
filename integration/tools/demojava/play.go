package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	firstRate, secondRate = 4, 8 // permits per interval; the programs set the first
	interval              = 2 * time.Second
	pause                 = 200 * time.Millisecond // between two calls
	released              = 2                      // permits
)

// timeline prints the calls of the programs and checks the windows.
type timeline struct {
	out    io.Writer
	began  time.Time
	rate   int
	grants []time.Time // when the call of each permit in the window began
	most   int         // permits in a window so far
}

// play runs the programs on a Redis: both take permits, Java changes the rate, Go releases permits.
func play(ctx context.Context, url string, out io.Writer) error {
	java, err := start(ctx, "Java", javaCommand+url)
	if err != nil {
		return err
	}
	defer java.stop()
	golang, err := start(ctx, "Go", goCommand+url)
	if err != nil {
		return err
	}
	defer golang.stop()
	// An answer shows that the program is connected.
	for _, p := range []*program{java, golang} {
		if _, err := p.ask("release", 0); err != nil {
			return err
		}
	}
	t := &timeline{out: out, began: time.Now(), rate: firstRate}
	t.title("Java (Redisson 4.7.0) and Go take from one limiter: %d permits in any %v", firstRate, interval)
	if err := t.takeInTurn(3*time.Second, java, golang); err != nil {
		return err
	}
	t.title("Java sets the rate to %d, and Go follows", secondRate)
	if _, err := java.ask("rate", secondRate); err != nil {
		return err
	}
	t.rate, t.most = secondRate, 0
	if err := t.takeInTurn(2*time.Second, golang, java); err != nil {
		return err
	}
	if t.most <= firstRate {
		return fmt.Errorf("at most %d permits in a window after the rate was set to %d", t.most, secondRate)
	}
	for granted := true; granted; {
		if granted, err = t.take(golang); err != nil {
			return err
		}
	}
	t.title("Go releases %d permits, and Java gets them", released)
	if _, err := golang.ask("release", released); err != nil {
		return err
	}
	t.window(time.Now())
	t.grants = t.grants[min(released, len(t.grants)):] // the oldest that count
	for range released {
		if granted, err := t.take(java); err != nil || !granted {
			return cmp.Or(err, errors.New("a permit that Go has released was denied to Java"))
		}
	}
	return nil
}

// takeInTurn has each program take one permit after another.
func (t *timeline) takeInTurn(d time.Duration, programs ...*program) error {
	for end, i := time.Now().Add(d), 0; time.Now().Before(end); i++ {
		if _, err := t.take(programs[i%len(programs)]); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}

// take has a program take a permit, and prints the result. It returns an error if a window holds
// more permits than the rate.
func (t *timeline) take(p *program) (granted bool, err error) {
	start := time.Now()
	answer, err := p.ask("take", 1)
	if err != nil {
		return false, err
	}
	end := time.Now()
	if granted = answer == "granted"; granted {
		// Redis dates grants in whole milliseconds, always down.
		t.grants = append(t.grants, start.Truncate(time.Millisecond))
	}
	taken := t.window(end)
	t.most = max(t.most, taken)
	t.print("%5.1fs  %-4s  %-7s  %s%s  %d of %d\n", start.Sub(t.began).Seconds(), p.name, answer,
		strings.Repeat("█", taken), strings.Repeat("░", max(0, t.rate-taken)), taken, t.rate)
	if taken > t.rate {
		return false, fmt.Errorf("%d permits in a window of %v, and the rate is %d", taken, interval, t.rate)
	}
	return granted, nil
}

// window returns the permits that were certainly granted in the interval before a time, which is
// not before the end of any call: their whole calls are in it.
func (t *timeline) window(end time.Time) (permits int) {
	t.grants = slices.DeleteFunc(t.grants, func(start time.Time) bool { return !start.After(end.Add(-interval)) })
	return len(t.grants)
}

func (t *timeline) title(format string, args ...any) { t.print("\n"+format+"\n\n", args...) }

func (t *timeline) print(format string, args ...any) {
	_, _ = fmt.Fprintf(t.out, format, args...) // a closed terminal does not end the demo
}
