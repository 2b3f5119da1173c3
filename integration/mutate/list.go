package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// edit is a small change of one file that makes the code wrong, or that is known to make no difference.
type edit struct {
	list string // where it stands, as file:line
	file string
	nth  int // which occurrence of old it replaces; 0 where there is one alone
	old  string
	new  string

	killedBy string // the test of its quick packages that fails with it
	suite    string // or the suite besides those that does
	harmless string // or why it is no defect
}

// readList reads a list of edits, blocks of lines with an empty line between them:
//
//	file: queue.go
//	nth: 2                  where old is there more than once
//	--- old text, of several lines where each begins so
//	+++ new text, likewise; none where the old text is dropped
//	killed by: TestName     or "killed by suite: integration/x", or "not a defect: why"
//
// Lines that begin with # are remarks.
func readList(path string) ([]edit, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var edits []edit
	var block []string
	for i, line := range append(strings.Split(string(text), "\n"), "") {
		line = strings.TrimSuffix(line, "\r")
		switch {
		case strings.HasPrefix(line, "#"):
		case line != "":
			block = append(block, line)
		case len(block) > 0:
			e, err := readEdit(block)
			e.list = fmt.Sprintf("%s:%d", filepath.Base(path), i-len(block)+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.list, err)
			}
			edits, block = append(edits, e), nil
		}
	}
	return edits, nil
}

func readEdit(block []string) (e edit, err error) {
	var before, after []string
	for _, line := range block {
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "---" || strings.HasPrefix(line, "--- "):
			before = append(before, strings.TrimPrefix(line[3:], " "))
		case line == "+++" || strings.HasPrefix(line, "+++ "):
			after = append(after, strings.TrimPrefix(line[3:], " "))
		case key == "file":
			e.file = value
		case key == "nth":
			if e.nth, err = strconv.Atoi(value); err != nil || e.nth < 1 {
				return e, fmt.Errorf("nth is %q, want 1 or more", value)
			}
		case key == "killed by":
			e.killedBy = value
		case key == "killed by suite":
			e.suite = value
		case key == "not a defect":
			e.harmless = value
		default:
			return e, fmt.Errorf("what is %q?", line)
		}
	}
	e.old, e.new = strings.Join(before, "\n"), strings.Join(after, "\n")
	if e.file == "" || e.old == "" || e.old == e.new {
		return e, fmt.Errorf("an edit has a file, an old text and another new one")
	}
	return e, nil
}

// apply gives the text of a file with the edit.
func (e edit) apply(text string) (string, error) {
	found := strings.Count(text, e.old)
	if e.nth == 0 && found != 1 || e.nth > found {
		return "", fmt.Errorf("no longer applies: %s has the old text %d times", e.file, found)
	}
	at := strings.Index(text, e.old)
	for range max(e.nth, 1) - 1 {
		at += 1 + strings.Index(text[at+1:], e.old)
	}
	return text[:at] + e.new + text[at+len(e.old):], nil
}

// String tells an edit in one line.
func (e edit) String() string {
	short := func(text string) string {
		text = strings.Join(strings.Fields(text), " ")
		if len(text) > 60 {
			text = text[:57] + "..."
		}
		return text
	}
	return fmt.Sprintf("%s %s: %s -> %s", e.list, e.file, short(e.old), short(e.new))
}
