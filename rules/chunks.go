package rules

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// A large YAML file is read in chunks of some rules each: several at once, with room for requests between them, and those alone that
// have changed since the file was read last. That is a shortcut for files that are right: whatever looks odd in one has it read as
// a whole, and that alone tells of errors.

// split is a file cut into what stands around the rules, and chunks of them. A chunk is a list of its own.
type split struct {
	head   string
	line   int // of "rules:" in the head
	chunks []string
}

// cut cuts a file whose rules are a list in blocks, below a line "rules:". It relies on one thing of YAML: a line that begins with a
// dash, in the column in which the dashes of a list stand, is another item of that list, or stands within quotes or brackets. Where it
// does, what is before it has no end, and is no YAML.
func cut(data []byte) (s split, ok bool) {
	text := string(data)
	begin, line := 0, 0 // of the line behind "rules:"
	for {
		end := lineEnd(text, begin)
		if end == begin {
			return s, false
		}
		line++
		if isRules(text[begin:end]) {
			begin = end
			break
		}
		begin = end
	}
	column, from := -1, begin
	at := begin
	for at < len(text) {
		end := lineEnd(text, at)
		spaces := 0
		for at+spaces < end && text[at+spaces] == ' ' {
			spaces++
		}
		rest := text[at+spaces : end]
		blank := strings.TrimSpace(rest) == "" || rest[0] == '#'
		dash := !blank && rest[0] == '-' && (len(rest) == 1 || rest[1] == ' ' || rest[1] == '\n' || rest[1] == '\r')
		switch {
		case blank:
		case column < 0:
			if !dash {
				return s, false
			}
			column = spaces
		case spaces < column || spaces == 0 && !dash:
			s.chunks = append(s.chunks, text[from:at])
			s.head, s.line = text[:begin]+text[at:], line
			return s, true
		case spaces == column && isCut(rest):
			s.chunks = append(s.chunks, text[from:at])
			from = at
		}
		at = end
	}
	if column < 0 {
		return s, false
	}
	s.chunks = append(s.chunks, text[from:])
	s.head, s.line = text[:begin], line
	return s, true
}

// lineEnd is where the line that begins at a place ends, with its line feed.
func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// isRules says whether a line is "rules:", and at most a comment behind it.
func isRules(line string) bool {
	const name = "rules:"
	if len(line) < len(name) || line[:len(name)] != name {
		return false
	}
	rest := line[len(name):]
	trimmed := strings.TrimSpace(rest)
	return len(trimmed) == 0 || trimmed[0] == '#' && (rest[0] == ' ' || rest[0] == '\t')
}

// isCut says whether a chunk begins with an item, by its first line: so that an item more or less changes one chunk, not all behind it.
func isCut(line string) bool {
	hash := uint32(2166136261) // FNV-1a
	for i := range len(line) {
		hash = (hash ^ uint32(line[i])) * 16777619
	}
	return hash%rulesAtOnce == 0
}

// smallest is the size of a file from which on it is cut.
const smallest = 64 << 10

// inChunks reads a file in chunks, and says false where it has to be read as a whole. What was read before is used again.
func inChunks(name string, data []byte, before *snapshot) (*snapshot, bool) {
	parts, ok := cut(data)
	if !ok {
		return nil, false
	}
	root, problem := parseYAML([]byte(parts.head))
	if problem != nil || root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 {
		return nil, false // in braces there are no lists of dashes
	}
	d := newDecoder(name, root)
	d.plain(root)
	file := fileFile{}
	fields(d, root, fileFields, &file)
	s := &snapshot{head: parts.head}
	if len(d.problems) > 0 || !isNothing(root, file.rules, parts.line) {
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
	read := make([][]*rule, len(parts.chunks))
	if !together(len(read), func() func(i int) bool {
		own := newDecoder(name, root)
		own.address, own.defaults = d.address, d.defaults
		return func(i int) bool {
			if read[i] = known[parts.chunks[i]]; read[i] == nil {
				read[i] = own.chunk(parts.chunks[i], domain)
			}
			return read[i] != nil
		}
	}) {
		return nil, false
	}
	s.chunks = make(map[string][]*rule, len(read))
	for i, rules := range read {
		s.chunks[parts.chunks[i]] = rules
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

// isNothing says whether the field of the rules, in its line, has no value but what was cut out.
func isNothing(root, rules *yaml.Node, line int) bool {
	if rules == nil || rules.Kind != yaml.ScalarNode || rules.Value != "" || rules.ShortTag() != "!!null" {
		return false
	}
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i+1] == rules {
			return root.Content[i].Line == line
		}
	}
	return false
}

// chunk reads some rules, and gives nil where it cannot.
func (d *decoder) chunk(text, domain string) []*rule {
	root, problem := parseYAML([]byte(text))
	if problem != nil || root.Kind != yaml.SequenceNode {
		return nil
	}
	d.root = root
	d.plain(root)
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
