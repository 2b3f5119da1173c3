package rls

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/internal/blocks"
)

// smallest is the size of a file from which on it is read in chunks.
const smallest = 64 << 10

// inChunks reads a large file some descriptors at a time, forgets its text's structure as it goes, which leaves less for the collector to go
// through, and rests as long as it works: requests wait for neither. That is a shortcut for plain files that are right: where anything is odd it
// gives nil, and the file is read as a whole, which alone tells of errors.
func inChunks(file string, text []byte) *domain {
	if len(text) < smallest || len(text) > mostBytes {
		return nil
	}
	parts, ok := blocks.Cut(text, "descriptors")
	if !ok {
		return nil
	}
	r := &reader{file: file}
	root := r.open([]byte(parts.Head))
	if root == nil || !parts.Around(root) {
		return nil
	}
	d := r.domain(root)
	plain, rest := blocks.Reader{}, blocks.Rest()
	for _, chunk := range parts.Chunks {
		begin := time.Now()
		list := plain.Read(strings.Clone(chunk.Text), chunk.Line) // else what outlives a reload, as a limiter does, would keep all of the file
		if list == nil || list.Kind != yaml.SequenceNode {
			return nil
		}
		r.descriptors(list, "descriptors", &d.rules, 0)
		rest(time.Since(begin))
	}
	if len(r.errs) > 0 {
		return nil
	}
	return d
}
