package rules

import (
	"math"
	"slices"
	"strings"
)

// tree finds the rules of a request by its host and path, in a time that depends on the path and not on how many rules there are.
// It knows what a ServeMux has no word for: patterns that overlap, where the order of the rules decides.
type tree struct {
	hosts map[string]*branch
	any   *branch // patterns without a host
}

// branch is a place in paths, behind some segments.
type branch struct {
	literal map[string]*branch // by the next segment
	single  *branch            // a wildcard
	at      [3]*leaf           // by the ending of patterns: here, slash and rest; nil where no pattern ends so
	first   int                // the first rule of this branch and all behind it
}

// leaf is the conditions of patterns that end at one place.
type leaf struct {
	plain    []entry            // in the order of the rules
	byHeader []byValue          // those that want a value of a header, in the order of the rules for each value
	byRange  *prefixes[[]entry] // other ones that want a range of addresses, likewise
	ranged   []entry            // the same, in the order of the rules
}

// byValue finds entries by the value of a header.
type byValue struct {
	name    string
	entries map[string][]entry
}

// entry is a condition of a rule.
type entry struct {
	rule      int // its place
	condition *condition
	unknown   error // why it is unknown whether the condition holds; nil if it does
}

func newBranch() *branch { return &branch{first: math.MaxInt} }

// add adds a condition. Rules have to come in their order.
func (t *tree) add(rule int, c *condition) {
	if t.any == nil {
		t.any, t.hosts = newBranch(), make(map[string]*branch)
	}
	b := t.any
	if c.host != "" {
		if b = t.hosts[c.host]; b == nil {
			b = newBranch()
			t.hosts[c.host] = b
		}
	}
	b.first = min(b.first, rule)
	for _, segment := range c.segments {
		b = b.behind(segment)
		b.first = min(b.first, rule)
	}
	if b.at[c.end] == nil {
		b.at[c.end] = new(leaf)
	}
	b.at[c.end].add(entry{rule: rule, condition: c})
}

// behind is the branch behind a segment, "" for a wildcard.
func (b *branch) behind(segment string) *branch {
	next := b.single
	if segment != "" {
		next = b.literal[segment]
	}
	if next != nil {
		return next
	}
	next = newBranch()
	switch {
	case segment == "":
		b.single = next
	case b.literal == nil:
		b.literal = map[string]*branch{segment: next}
	default:
		b.literal[segment] = next
	}
	return next
}

func (l *leaf) add(e entry) {
	for _, h := range e.condition.headers {
		if h.value == "*" {
			continue
		}
		i := slices.IndexFunc(l.byHeader, func(v byValue) bool { return v.name == h.name })
		if i < 0 {
			i = len(l.byHeader)
			l.byHeader = append(l.byHeader, byValue{h.name, make(map[string][]entry)})
		}
		l.byHeader[i].entries[h.value] = append(l.byHeader[i].entries[h.value], e)
		return
	}
	if len(e.condition.ranges.list) == 0 {
		l.plain = append(l.plain, e)
		return
	}
	l.ranged = append(l.ranged, e)
	if l.byRange == nil {
		l.byRange = new(prefixes[[]entry])
	}
	for _, network := range e.condition.ranges.list {
		at := l.byRange.at(network)
		*at = append(*at, e)
	}
}

// search is one look for the rules of a request.
type search struct {
	request asked
	all     bool
	found   []entry // by the order of the rules; at most one where not all are wanted
}

// find finds the rules of a request, once each, by the condition that comes first.
func (t *tree) find(s *search, path string) {
	if t.any == nil {
		return
	}
	if len(t.hosts) > 0 {
		if b := t.hosts[s.request.host()]; b != nil {
			s.walk(b, path)
		}
	}
	s.walk(t.any, path)
}

// walk looks at a branch, for what is left of a path: nothing, or a slash and more.
func (s *search) walk(b *branch, rest string) {
	if !s.all && len(s.found) > 0 && s.found[0].rule < b.first {
		return
	}
	if rest == "" {
		s.look(b.at[endHere])
		return
	}
	s.look(b.at[endRest])
	if rest == "/" {
		s.look(b.at[endSlash])
		return
	}
	if b.literal == nil && b.single == nil {
		return
	}
	segment, behind := rest[1:], ""
	if slash := strings.IndexByte(segment, '/'); slash >= 0 {
		segment, behind = segment[:slash], segment[slash:]
	}
	if next := b.literal[unescaped(segment)]; next != nil {
		s.walk(next, behind)
	}
	if b.single != nil {
		s.walk(b.single, behind)
	}
}

func (s *search) look(l *leaf) {
	if l == nil {
		return
	}
	s.try(l.plain)
	for i := range l.byHeader {
		for _, value := range s.request.values(l.byHeader[i].name) {
			s.try(l.byHeader[i].entries[value])
		}
	}
	if l.byRange == nil {
		return
	}
	client, err := s.request.client()
	if err != nil {
		s.try(l.ranged)
		return
	}
	l.byRange.of(client, s.try)
}

// try keeps entries that hold, or may hold: a client does not escape a rule by an address that is unknown.
func (s *search) try(entries []entry) {
	for _, e := range entries {
		if !s.all && len(s.found) > 0 && (s.found[0].rule < e.rule || s.found[0].rule == e.rule && s.found[0].unknown == nil) {
			return
		}
		holds, err := e.condition.holds(s.request)
		if !holds && err == nil {
			continue
		}
		e.unknown = err
		if s.all {
			s.insert(e)
		} else {
			s.found = append(s.found[:0], e)
		}
	}
}

// insert keeps an entry in its place.
func (s *search) insert(e entry) {
	at, twice := slices.BinarySearchFunc(s.found, e, func(a, b entry) int { return a.rule - b.rule })
	switch {
	case !twice:
		s.found = slices.Insert(s.found, at, e)
	case e.unknown == nil && s.found[at].unknown != nil:
		s.found[at] = e
	}
}
