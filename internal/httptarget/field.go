package httptarget

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// connectionFields are about the connection of a request and not part of it. The next server does not get
// them (RFC 9110, 7.6.1). Upgrade is one of them too, unless Connection names it.
var connectionFields = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Transfer-Encoding", "Trailer",
	"Proxy-Authenticate", "Proxy-Authorization"}

// IsConnectionField reports whether a field, by its canonical name, never reaches the next server.
func IsConnectionField(name string) bool { return slices.Contains(connectionFields, name) }

// Fields are the fields of a request, as this server and others read them.
type Fields struct {
	header  http.Header
	trailer http.Header
	named   map[string]bool     // by canonical name: what Connection names
	upgrade bool                // Connection names Upgrade
	cgi     map[string][]string // by canonical name: values of names with underscores
}

// ReadFields reads the fields of a request once: a client may send thousands.
func ReadFields(header, trailer http.Header) *Fields {
	f := &Fields{header: header, trailer: trailer}
	for _, line := range header["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			f.upgrade = f.upgrade || strings.EqualFold(strings.Trim(option, " \t"), "Upgrade")
		}
		f.addNamed(line)
	}
	for _, line := range header["Proxy-Connection"] { // which some proxies read too
		f.addNamed(line)
	}
	for name, values := range header {
		if strings.IndexByte(name, '_') >= 0 {
			if f.cgi == nil {
				f.cgi = make(map[string][]string)
			}
			name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
			f.cgi[name] = append(f.cgi[name], values...)
		}
	}
	return f
}

// addNamed adds the names of a line of Connection, whatever a proxy separates them by.
func (f *Fields) addNamed(line string) {
	for option := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(",; \t\"", r) }) {
		if f.named == nil {
			f.named = make(map[string]bool)
		}
		f.named[http.CanonicalHeaderKey(option)] = true
	}
}

// Get returns the values of a field by its canonical name, and whether all servers read them so. A proxy
// removes a field that Connection names. A server may have the field of a trailer among the others. CGI
// (RFC 3875, 4.1.18) writes names with underscores.
func (f *Fields) Get(name string) (sent []string, clear bool) {
	sent, clear = f.header[name], !f.named[name]
	if name == "Upgrade" {
		clear = f.upgrade
	}
	if others := f.cgi[name]; others != nil {
		sent, clear = slices.Concat(sent, others), false
	}
	if _, announced := f.trailer[name]; announced {
		sent, clear = append(slices.Clip(sent), ""), false
	}
	return sent, clear || len(sent) == 0
}

var errBasic = errors.New("the credentials of Basic are not in Base64")

// FieldValue returns a value of a field without what has no meaning in it, and whether it was sent so. White
// space around a value has none. Nor have, in Authorization, the case of the scheme, which is lower here, further
// spaces behind it, and the spelling of Basic credentials.
func FieldValue(name, value string) (text string, exact bool, err error) {
	text = strings.Trim(value, " \t")
	exact = text == value
	if name != "Authorization" {
		return text, exact, nil
	}
	end := strings.IndexAny(text, " \t")
	if end < 0 {
		return strings.ToLower(text), exact, nil
	}
	scheme, credentials := strings.ToLower(text[:end]), strings.TrimLeft(text[end:], " \t")
	exact = exact && text[end:] == " "+credentials
	if scheme == "basic" {
		decoded, failed := base64.StdEncoding.DecodeString(credentials)
		plain := base64.StdEncoding.EncodeToString(decoded) // without bits that decoders ignore
		if failed != nil {
			plain, err = credentials, errBasic
		}
		exact, credentials = exact && plain == credentials, plain
	}
	return scheme + " " + credentials, exact, err
}
