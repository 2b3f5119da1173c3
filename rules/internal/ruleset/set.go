package ruleset

import "sync/atomic"

// Set is the rules of a file that may change. The zero Set has no rules. It is safe for concurrent use.
type Set struct {
	current atomic.Pointer[File]
}

var noRules = new(File)

// File returns the current file.
func (s *Set) File() *File {
	if file := s.current.Load(); file != nil {
		return file
	}
	return noRules
}

// Replace puts a file into force.
func (s *Set) Replace(file *File) { s.current.Store(file) }
