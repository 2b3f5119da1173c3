package rules

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// read reads a file, unless it is none, or too large. What it gives is the file at one moment as far as that can be told: one that
// is written meanwhile is read again.
func read(path string) ([]byte, error) {
	for range 3 {
		before, err := os.Stat(path) // first, since to open a pipe would wait for who writes into it
		if err != nil {
			return nil, unreadable(path, err)
		}
		if err := checkInfo(path, before); err != nil {
			return nil, err
		}
		data, after, err := readOpened(path)
		if err != nil {
			return nil, err
		}
		if os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime()) && int64(len(data)) == after.Size() {
			return data, nil
		}
	}
	return nil, &Error{File: path, Reason: "it is written to while it is read; write another file and rename it"}
}

// readOpened reads a file and says what it was when all was read.
func readOpened(path string) ([]byte, fs.FileInfo, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, unreadable(path, err)
	}
	defer func() { _ = file.Close() }() // it was read alone
	data, err := io.ReadAll(io.LimitReader(file, rulefile.MostBytes+1))
	if err != nil {
		return nil, nil, unreadable(path, err)
	}
	after, err := file.Stat()
	if err != nil {
		return nil, nil, unreadable(path, err)
	}
	return data, after, checkInfo(path, after)
}

func checkInfo(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return &Error{File: path, Reason: "it is a directory, want a file"}
	case !info.Mode().IsRegular():
		return &Error{File: path, Reason: fmt.Sprintf("it is no regular file (%v)", info.Mode().Type())}
	case info.Size() > rulefile.MostBytes:
		return tooLarge(path, info.Size())
	}
	return nil
}

func tooLarge(path string, size int64) error {
	return &Error{File: path, Reason: fmt.Sprintf("it has %d bytes, want at most %d (%d MiB)", size, rulefile.MostBytes, rulefile.MostBytes>>20)}
}

func unreadable(path string, err error) error {
	reason := err.Error()
	if failed, ok := err.(*fs.PathError); ok { //nolint:errorlint // os gives it as it is
		reason = "cannot be read: " + failed.Err.Error()
	}
	return &Error{File: path, Reason: reason, Err: err}
}
