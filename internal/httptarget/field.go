package httptarget

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// connectionFields are about the connection of a request and not part of it: the next server does not get
// them (RFC 9110, 7.6.1). Upgrade is one of them too, unless Connection names it.
var connectionFields = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Transfer-Encoding", "Trailer",
	"Proxy-Authenticate", "Proxy-Authorization"}

// IsConnectionField reports whether a field, by its canonical name, never reaches the next server.
func IsConnectionField(name string) bool { return slices.Contains(connectionFields, name) }

// Field returns the values of a field of a request, by its canonical name, and whether all servers read them
// so. A proxy removes a field that Connection names, a server may have the field of a trailer among the
// others, and CGI (RFC 3875, 4.1.18) writes names with underscores.
func Field(r, trailer http.Header, name string) (sent []string, clear bool) {
	sent = r[name]
	_, announced := trailer[name]
	if name == "Upgrade" {
		clear = isNamed(r["Connection"], name, ",") && !announced
	} else { // whatever a proxy separates names by; some read Proxy-Connection too
		const separators = ",; \t\""
		named := isNamed(r["Connection"], name, separators) || isNamed(r["Proxy-Connection"], name, separators)
		clear = !named && !announced
	}
	for other, values := range r {
		if strings.IndexByte(other, '_') >= 0 && strings.EqualFold(strings.ReplaceAll(other, "_", "-"), name) {
			sent, clear = slices.Concat(sent, values), false
		}
	}
	if announced {
		sent = append(slices.Clip(sent), "")
	}
	return sent, clear || len(sent) == 0
}

// isNamed reports whether one of the lines of Connection names a field.
func isNamed(lines []string, name, separators string) bool {
	for _, line := range lines {
		for option := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
			if strings.EqualFold(strings.Trim(option, " \t"), name) {
				return true
			}
		}
	}
	return false
}

var errBasic = errors.New("the credentials of Basic are not in Base64")

// FieldValue returns a value of a field without what has no meaning in it, and whether it was sent so: white
// space around it, and in Authorization the case of the scheme, which is lower here, further spaces behind it,
// and the spelling of Basic credentials.
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
