package rules

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter/internal/blocks"
)

// A large YAML file is read in chunks of some rules each: several at once, with room for requests between them, and those alone that
// have changed since the file was read last. That is a shortcut for files that are right: whatever looks odd in one has it read as
// a whole, and that alone tells of errors.

// smallest is the size of a file from which on it is cut.
const smallest = 64 << 10

// inChunks reads a file in chunks, and says false where it has to be read as a whole. What was read before is used again.
func inChunks(name string, data []byte, before *snapshot) (*snapshot, bool) {
	parts, ok := blocks.Cut(data, "rules")
	if !ok {
		return nil, false
	}
	root, problem := parseYAML([]byte(parts.Head))
	if problem != nil || !parts.Around(root) {
		return nil, false
	}
	d := newDecoder(name, root)
	d.plain(root)
	file := fileFile{}
	fields(d, root, fileFields, &file)
	s := &snapshot{head: parts.Head}
	if len(d.problems) > 0 {
		return nil, false
	}
	domain := d.head(&file, s)
	if len(d.problems) > 0 {
		return nil, false
	}
	var known map[string][]*rule
	if before != nil && before.head == s.head {
		known = before.chunks
	}
	read := make([][]*rule, len(parts.Chunks))
	if !together(len(read), func() func(i int) bool {
		own := newDecoder(name, root)
		own.address, own.allowSlashes, own.defaults = d.address, d.allowSlashes, d.defaults
		plain := &blocks.Reader{}
		return func(i int) bool {
			if read[i] = known[parts.Chunks[i].Text]; read[i] == nil {
				read[i] = own.chunk(strings.Clone(parts.Chunks[i].Text), plain, domain) // else its rules would keep all of the file
			}
			return read[i] != nil
		}
	}) {
		return nil, false
	}
	s.chunks = make(map[string][]*rule, len(read))
	for i, rules := range read {
		s.chunks[parts.Chunks[i].Text] = rules
		s.rules = append(s.rules, rules...)
	}
	seen := make(map[string]bool, len(s.rules))
	for _, r := range s.rules {
		if seen[r.name] {
			return nil, false
		}
		seen[r.name] = true
	}
	d.rates(s)
	if len(d.problems) > 0 {
		return nil, false
	}
	s.build()
	return s, true
}

// chunk reads some rules, and gives nil where it cannot.
func (d *decoder) chunk(text string, plain *blocks.Reader, domain string) []*rule {
	root := plain.Read(text, 1)
	if root == nil {
		var problem *Error
		if root, problem = parseYAML([]byte(text)); problem != nil {
			return nil
		}
		d.plain(root)
	}
	if root.Kind != yaml.SequenceNode {
		return nil
	}
	d.root = root
	rules := make([]*rule, 0, len(root.Content))
	for _, n := range root.Content {
		if r := d.rule(n, domain); r != nil {
			rules = append(rules, r)
		}
	}
	if len(d.problems) > 0 {
		return nil
	}
	return rules
}
