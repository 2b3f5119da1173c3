package rulefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// MostBytes is the largest size of a file. A file of 10,000 rules has about 2 MB.
const MostBytes = 16 << 20

// Source is the content of a file.
type Source struct {
	Name string
	Data []byte
}

// Read reads a file, or the files of a folder for which belongs returns true. Without belongs, a
// folder is a problem. If a file changes meanwhile, all are read again, so that the contents belong
// to one point in time.
func Read(path string, belongs func(fs.DirEntry) bool) ([]Source, *Problem) {
	for range 3 {
		before := filesAt(path, belongs)
		sources, problem := readAll(before)
		if slices.EqualFunc(before, filesAt(path, belongs), file.equal) {
			return sources, problem
		}
	}
	return nil, &Problem{File: path, Reason: "it changes while it is read: write another file and rename it"}
}

// file is a file before it is read.
type file struct {
	name string
	info fs.FileInfo // nil if there is none
	err  error       // why there is none
}

func (f file) equal(other file) bool {
	if f.info == nil || other.info == nil {
		return f.name == other.name && f.info == other.info
	}
	return f.name == other.name && os.SameFile(f.info, other.info) &&
		f.info.Size() == other.info.Size() && f.info.ModTime().Equal(other.info.ModTime())
}

func fileAt(name string) file {
	info, err := os.Stat(name)
	return file{name, info, err}
}

func filesAt(path string, belongs func(fs.DirEntry) bool) []file {
	at := fileAt(path)
	if belongs == nil || at.err != nil || !at.info.IsDir() {
		return []file{at}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return []file{{path, nil, err}}
	}
	var all []file
	for _, entry := range entries {
		if belongs(entry) {
			all = append(all, fileAt(filepath.Join(path, entry.Name())))
		}
	}
	return all
}

func readAll(files []file) ([]Source, *Problem) {
	sources := make([]Source, len(files))
	for i, f := range files {
		data, problem := f.read()
		if problem != nil {
			problem.File = f.name
			return nil, problem
		}
		sources[i] = Source{f.name, data}
	}
	return sources, nil
}

// read reads a regular file. It refuses a pipe, whose opening would block until a writer opens it.
func (f file) read() ([]byte, *Problem) {
	switch {
	case f.err != nil:
		return nil, unreadable(f.err)
	case f.info.IsDir():
		return nil, &Problem{Reason: "it is a directory, want a file"}
	case !f.info.Mode().IsRegular():
		return nil, &Problem{Reason: fmt.Sprintf("it is no regular file (%v)", f.info.Mode().Type())}
	case f.info.Size() > MostBytes:
		return nil, tooLarge(f.info.Size())
	}
	opened, err := os.Open(f.name)
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = opened.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(opened, MostBytes+1))
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

// tooLarge returns the problem of a file of more than MostBytes.
func tooLarge(size int64) *Problem {
	return &Problem{Reason: fmt.Sprintf("it has %d bytes, want at most %d (%d MiB)", size, MostBytes, MostBytes>>20)}
}

func unreadable(err error) *Problem {
	reason := err
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		reason = failed.Err
	}
	return &Problem{Reason: fmt.Sprintf("cannot be read: %v", reason), Err: err}
}
