package names

import (
	"encoding"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote writes a name so that a terminal shows all of it and obeys none of it: as a Go string
// literal if it contains spaces, bytes that are no UTF-8 or characters that do not print, or if it
// looks like a literal. Unquote reverses it.
func Quote(name string) string {
	strange := func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' || c == utf8.RuneError }
	if name == "" || name[0] == '"' || strings.ContainsFunc(name, strange) {
		return strconv.Quote(name)
	}
	return name
}

// Unquote reads a name that Quote or JSON wrote. Any other text is itself.
func Unquote(text string) string {
	if !strings.HasPrefix(text, `"`) {
		return text
	}
	if name, err := strconv.Unquote(text); err == nil && name != "" {
		return name
	}
	return text
}

// Name is a name or a key in JSON. JSON holds no bytes but UTF-8, and no argument of a program
// holds NUL: a name with these is written as a Go string literal, and so is one that looks like a
// literal. Unquote reverses it.
type Name string

var _ encoding.TextMarshaler = Name("")

// MarshalText is called by encoding/json.
func (n Name) MarshalText() ([]byte, error) {
	if text := string(n); !utf8.ValidString(text) || strings.HasPrefix(text, `"`) || strings.Contains(text, "\x00") {
		return []byte(strconv.Quote(text)), nil
	}
	return []byte(n), nil
}
