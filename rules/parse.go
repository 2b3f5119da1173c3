package rules

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// snapshot is a file of rules, read. Nobody changes it.
type snapshot struct {
	rules    []*rule
	settings map[settings]bool // of all rules: whether Redis is asked
	address  httplimit.Address
	all      bool // all rules that match decide, not the first alone

	allowSlashes bool // paths may have escaped slashes and backslashes
	looksAtPaths bool // a rule that is no shadow does

	http matcher
	grpc matcher
}

// fileFile is a file as it is written.
type fileFile struct {
	domain, match, address, slashes, defaults, rules *yaml.Node
}

var fileFields = map[string]field[fileFile]{
	"domain":          func(_ *decoder, n *yaml.Node, f *fileFile) { f.domain = n },
	"match":           func(_ *decoder, n *yaml.Node, f *fileFile) { f.match = n },
	"address":         func(_ *decoder, n *yaml.Node, f *fileFile) { f.address = n },
	"escaped_slashes": func(_ *decoder, n *yaml.Node, f *fileFile) { f.slashes = n },
	"defaults":        func(_ *decoder, n *yaml.Node, f *fileFile) { f.defaults = n },
	"rules":           func(_ *decoder, n *yaml.Node, f *fileFile) { f.rules = n },
}

// parse reads a file.
func parse(name string, data []byte) (*snapshot, error) {
	if len(data) > mostBytes {
		return nil, tooLarge(name, int64(len(data)))
	}
	root, problem := document(data)
	if problem != nil {
		problem.File = name
		return nil, problem
	}
	d := newDecoder(name, root)
	d.plain(root)
	if len(d.problems) > 0 {
		return nil, joined(d.problems)
	}
	s := d.snapshot(root)
	if err := joined(d.problems); err != nil {
		return nil, err
	}
	return s, nil
}

// document reads the nodes of a file.
func document(data []byte) (*yaml.Node, *Error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // as editors on Windows write it
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &Error{Reason: "the file is empty"}
	}
	if !utf8.Valid(data) {
		return nil, &Error{Line: lineOf(data, isNoUTF8), Reason: "the file is not UTF-8"}
	}
	return parseYAML(data)
}

// lineOf is the line of the first character that is odd.
func lineOf(data []byte, odd func(r rune, size int) bool) int {
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if odd(r, size) {
			break
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return line
}

func isNoUTF8(r rune, size int) bool { return r == utf8.RuneError && size == 1 }

// isControl says whether a character is one that YAML does not have.
func isControl(r rune, _ int) bool {
	return r != '\u0085' && unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) || r == '\ufffe' || r == '\uffff'
}

// parseYAML reads the nodes of a YAML document.
func parseYAML(data []byte) (*yaml.Node, *Error) {
	var documents []yaml.Node
	err := yaml.Load(data, &documents, yaml.WithAllDocuments())
	if err != nil {
		problem := &Error{Reason: cutTo(200, err.Error()), Err: err}
		var load *yaml.LoadError
		if errors.As(err, &load) {
			problem.Line, problem.Column, problem.Reason = load.Mark.Line, load.Mark.Column, "no YAML: "+cutTo(200, load.Message)
			if load.ContextMsg != "" {
				problem.Reason += " (" + load.ContextMsg
				if load.ContextMark.Line > 0 && load.ContextMark.Line != load.Mark.Line {
					problem.Reason += fmt.Sprintf(" that begins in line %d", load.ContextMark.Line)
				}
				problem.Reason += ")"
			}
		}
		if problem.Line == 0 { // it says so of characters alone
			problem.Line = lineOf(data, isControl)
		}
		return nil, problem
	}
	switch {
	case len(documents) == 0 || len(documents[0].Content) == 0:
		return nil, &Error{Reason: "the file has nothing but comments"}
	case len(documents) > 1:
		return nil, &Error{Line: documents[1].Line, Column: documents[1].Column, Reason: fmt.Sprintf("%d documents in one file, want one", len(documents))}
	}
	return documents[0].Content[0], nil
}

func newDecoder(name string, root *yaml.Node) *decoder {
	return &decoder{file: name, root: root, apart: make(map[[2]limit.Policy]bool)}
}

// plain tells of what YAML has and JSON has not. An alias makes a small file a large one, and a tag a value another.
func (d *decoder) plain(n *yaml.Node) {
	switch {
	case d.full():
		return
	case n.Kind == yaml.AliasNode:
		d.fail(n, "aliases are not supported: what many rules share goes into defaults")
		return
	case n.Anchor != "":
		d.fail(n, "the anchor &%s is not supported: what many rules share goes into defaults", clipped(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0:
		d.fail(n, "the tag %s is not supported", clipped(n.Tag))
	}
	for _, child := range n.Content {
		d.plain(child)
	}
}

// snapshot reads what the nodes of a file say.
func (d *decoder) snapshot(root *yaml.Node) *snapshot {
	file := fileFile{}
	fields(d, root, fileFields, &file)
	s := &snapshot{}
	domain := d.head(&file, s)
	if len(d.problems) > 0 {
		return s // what rules would say of it is no news
	}
	if file.rules == nil {
		if root.Kind == yaml.MappingNode {
			d.fail(root, "no rules: give a list, which may be empty")
		}
		return s
	}
	if file.rules.Kind != yaml.SequenceNode {
		d.wrong(file.rules, "a list of rules")
		return s
	}
	lines := make(map[string]int, len(file.rules.Content))
	s.rules = make([]*rule, 0, len(file.rules.Content))
	for i, n := range file.rules.Content {
		if d.full() {
			return s
		}
		r := d.rule(n, domain)
		if r == nil {
			continue
		}
		if line := lines[r.name]; line > 0 {
			d.fail(n, "the name %q is there twice, first in line %d", r.name, line)
			continue
		}
		lines[r.name] = r.line
		s.rules = append(s.rules, r)
		if i%rulesAtOnce == rulesAtOnce-1 {
			runtime.Gosched()
		}
	}
	d.rates(s)
	s.build()
	return s
}

// build makes ready what requests need of the rules.
func (s *snapshot) build() {
	s.settings = settingsOf(s.rules)
	s.settings[refusing(settings{})] = false
	for i, r := range s.rules {
		s.looksAtPaths = s.looksAtPaths || !r.settings.shadow && r.looksAtPaths()
		for _, c := range r.conditions {
			if c.rpc {
				s.grpc.add(i, c)
			} else {
				s.http.add(i, c)
			}
		}
		if i%rulesAtOnce == rulesAtOnce-1 {
			runtime.Gosched()
		}
	}
}

// rulesAtOnce is how many rules are read before others may have the processor: so a reload holds up no request.
const rulesAtOnce = 16

// rates tells of limiters for which two rules state different rates.
func (d *decoder) rates(s *snapshot) {
	stated := make(map[string]rratelimiter.Rate)
	for _, r := range s.rules {
		for _, limiter := range r.stated() {
			if before, ok := stated[limiter.name]; ok && before != *limiter.rate {
				d.problems = append(d.problems, &Error{File: d.file, Line: r.line, Field: "rules", Reason: fmt.Sprintf(
					"the rule %q states another rate for the limiter %q than a rule before it: state it once", r.name, limiter.name)})
			}
			stated[limiter.name] = *limiter.rate
		}
	}
}

// head reads all but the rules.
func (d *decoder) head(file *fileFile, s *snapshot) (domain string) {
	if file.domain != nil {
		domain, _ = d.text(file.domain, "a text, what the names of all limiters begin with")
		if !isPrintable(domain) || strings.Contains(domain, " ") || len(domain) > longestName {
			d.fail(file.domain, "the domain %q, want printable ASCII without spaces, at most %d characters", clipped(domain), longestName)
		} else if err := checkName(domain); err != nil {
			d.fail(file.domain, "%v", err)
		}
	}
	if file.match != nil {
		const want = "first or all"
		switch text, ok := d.text(file.match, "a text, "+want); {
		case !ok:
		case text != "first" && text != "all":
			d.fail(file.match, "%q, want %s", clipped(text), want)
		default:
			s.all = text == "all"
		}
	}
	if file.address != nil {
		fields(d, file.address, addressFields, &d.address)
		s.address = d.address
	}
	if file.slashes != nil {
		const want = "refuse or allow"
		switch text, ok := d.text(file.slashes, "a text, "+want); {
		case !ok:
		case text != "refuse" && text != "allow":
			d.fail(file.slashes, "%q, want %s", clipped(text), want)
		default:
			d.allowSlashes = text == "allow"
			s.allowSlashes = d.allowSlashes
		}
	}
	if file.defaults != nil {
		d.readDefaults(file.defaults)
	}
	return domain
}

// readDefaults reads the defaults, and tells here, once, what is wrong with them.
func (d *decoder) readDefaults(n *yaml.Node) {
	file := ruleFile{}
	before := len(d.problems)
	fields(d, n, defaultFields, &file)
	d.settings(&file, &rule{})
	if file.key != nil {
		d.key(file.key)
	}
	d.policy(file.policy)
	if len(d.problems) == before {
		d.defaults = file
	}
}
