package rulefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// MaxBytes is the largest size of a file. A file of 10,000 rules has about 2 MB.
const MaxBytes = 16 << 20

// Source is the content of a file.
type Source struct {
	Name string
	Data []byte
}

// Read reads a file, or the files of a folder for which belongs returns true. Without belongs, a
// folder is a problem. It reads until two reads are equal, so that the contents belong to one point
// in time.
func Read(path string, belongs func(fs.DirEntry) bool) ([]Source, *Problem) {
	sources, problem := readAll(path, belongs)
	for range 3 {
		before := sumOf(sources, problem)
		if sources, problem = readAll(path, belongs); sumOf(sources, problem) == before {
			return sources, problem
		}
	}
	return nil, &Problem{File: path, Reason: "it changes while it is read: write another file and rename it"}
}

func readAll(path string, belongs func(fs.DirEntry) bool) (sources []Source, problem *Problem) {
	names := []string{path}
	if info, err := os.Stat(path); belongs != nil && err == nil && info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, unreadable(path, err)
		}
		names = nil
		for _, entry := range entries {
			if belongs(entry) {
				names = append(names, filepath.Join(path, entry.Name()))
			}
		}
	}
	for _, name := range names {
		data, problem := read(name)
		if problem != nil {
			return nil, problem
		}
		sources = append(sources, Source{name, data})
	}
	return sources, nil
}

// read reads a regular file. It refuses a pipe, whose opening would block until a writer opens it.
func read(name string) ([]byte, *Problem) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, unreadable(name, err)
	case info.IsDir():
		return nil, &Problem{File: name, Reason: "it is a directory, want a file"}
	case !info.Mode().IsRegular():
		return nil, &Problem{File: name, Reason: fmt.Sprintf("it is no regular file (%v)", info.Mode().Type())}
	case info.Size() > MaxBytes:
		return nil, tooLarge(name, info.Size())
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	return data, nil
}

// tooLarge returns the problem of a file of more than MaxBytes.
func tooLarge(name string, size int64) *Problem {
	reason := fmt.Sprintf("it has %d bytes, want at most %d (%d MiB)", size, MaxBytes, MaxBytes>>20)
	return &Problem{File: name, Reason: reason}
}

func unreadable(name string, err error) *Problem {
	reason := err
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		reason = failed.Err // the problem has the name already
	}
	return &Problem{File: name, Reason: fmt.Sprintf("cannot be read: %v", reason), Err: err}
}
