package blocks

import (
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Parts are a file cut into what stands around a list, and chunks of some items of that list.
type Parts struct {
	Head   string // the file without the list
	Chunks []Chunk
	field  string
	line   int // of the field, in the head
}

// Chunk is some items of a list, which is a list of its own.
type Chunk struct {
	Text string
	Line int // of the file, in which it begins
}

// Cut cuts a file that has a list in blocks below a line "field:". It relies on one thing of YAML: a line that begins with a dash, in
// the column in which the dashes of a list stand, is another item of that list, or stands within quotes or brackets. Where it does,
// what is before it has no end, and is no YAML.
func Cut(data []byte, field string) (p Parts, ok bool) {
	text := string(data)
	if !utf8.ValidString(text) || hasOtherBreaks(text) { // it may be UTF-16, and its lines others
		return p, false
	}
	p.field = field
	begin, line := 0, 1 // of the line behind the field's
	for isField := false; !isField; line++ {
		end := lineEnd(text, begin)
		if end == begin {
			return p, false
		}
		isField = isLineOf(field, text[begin:end])
		begin = end
	}
	p.line = line - 1
	column, item := -1, begin // of the dashes, and where the last of them stands
	from, fromLine := begin, line
	chunk := func(at int) {
		p.Chunks = append(p.Chunks, Chunk{text[from:at], fromLine})
		from, fromLine = at, line
	}
	for at := begin; at < len(text); line++ {
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
				return p, false
			}
			column, item = spaces, at
		case spaces < column || spaces == 0 && !dash:
			chunk(at)
			p.Head = text[:begin] + text[at:]
			return p, true
		case spaces == column && dash:
			if isCut(data[item:at]) {
				chunk(at)
			}
			item = at
		}
		at = end
	}
	if column < 0 {
		return p, false
	}
	chunk(len(text))
	p.Head = text[:begin]
	return p, true
}

// Around says whether that is what a file means, by the nodes of the head: a mapping that has the field, in its line, and nothing in it.
func (p Parts) Around(head *yaml.Node) bool {
	if head.Kind != yaml.MappingNode || head.Style&yaml.FlowStyle != 0 { // in braces there are no lists of dashes
		return false
	}
	for i := 0; i < len(head.Content); i += 2 {
		if key, value := head.Content[i], head.Content[i+1]; key.Value == p.field {
			return key.Line == p.line && value.Kind == yaml.ScalarNode && value.Value == "" && value.ShortTag() == "!!null" &&
				value.Style == 0 && value.Anchor == "" // what stands behind the list may be such of nothing
		}
	}
	return false
}

// hasOtherBreaks says whether lines end in what is neither a line feed nor a carriage return before one.
func hasOtherBreaks(text string) bool {
	return strings.Count(text, "\r") != strings.Count(text, "\r\n") ||
		strings.Contains(text, "\u0085") || strings.Contains(text, "\u2028") || strings.Contains(text, "\u2029")
}

// lineEnd is where the line that begins at a place ends, with its line feed.
func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// isLineOf says whether a line is that of a field without a value, and at most a comment behind it.
func isLineOf(field, line string) bool {
	rest, ok := strings.CutPrefix(line, field+":")
	if !ok {
		return false
	}
	trimmed := strings.TrimSpace(rest)
	return trimmed == "" || trimmed[0] == '#' && (rest[0] == ' ' || rest[0] == '\t')
}

// itemsAtOnce is how many items a chunk has on average.
const itemsAtOnce = 16

// isCut says whether a chunk ends behind an item, by the item's text: so that an item more or less changes a chunk or two, not all behind it.
func isCut(item []byte) bool {
	return crc32.Checksum(item, castagnoli)%itemsAtOnce == 0
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
