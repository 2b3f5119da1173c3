package names

import (
	"encoding"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote formats a name for a terminal. It returns a Go string literal if the name contains spaces, invalid
// UTF-8 or unprintable characters, or looks like a literal. Unquote reverses it.
func Quote(name string) string {
	strange := func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' || c == utf8.RuneError }
	if name == "" || name[0] == '"' || strings.ContainsFunc(name, strange) {
		return strconv.Quote(name)
	}
	return name
}

// Unquote parses a name that Quote or JSON wrote. It returns any other text unchanged.
func Unquote(text string) string {
	if !strings.HasPrefix(text, `"`) {
		return text
	}
	if name, err := strconv.Unquote(text); err == nil && name != "" {
		return name
	}
	return text
}

// Name is a name or a key in JSON. A name with invalid UTF-8 or NUL, or one that looks like a literal, is
// written as a Go string literal: JSON or an argument cannot hold it. Unquote reverses it.
type Name string

var _ encoding.TextMarshaler = Name("")

// MarshalText is called by encoding/json.
func (n Name) MarshalText() ([]byte, error) {
	if text := string(n); !utf8.ValidString(text) || strings.HasPrefix(text, `"`) || strings.Contains(text, "\x00") {
		return []byte(strconv.Quote(text)), nil
	}
	return []byte(n), nil
}
