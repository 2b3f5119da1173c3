// Package httptarget normalises the method, host and path of a request. Package rules uses it, so that
// every spelling of a request meets the same limits.
package httptarget

import (
	"net/http"
	"strings"
)

// Method returns a method in capitals, since some servers ignore its case.
func Method(method string) string { return strings.ToUpper(method) }

// HasMethod reports whether a request's method matches the wanted one. GET includes HEAD, as in
// net/http.
func HasMethod(wanted, method string) bool {
	return wanted == method || wanted == http.MethodGet && method == http.MethodHead
}

// OtherMethods is the key of methods that net/http does not define. A client can invent any number of
// them.
const OtherMethods = "other"

// MethodKey returns the method under which a request counts. HEAD counts as GET.
func MethodKey(method string) string {
	switch method {
	case http.MethodHead:
		return http.MethodGet
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect,
		http.MethodOptions, http.MethodTrace:
		return method
	}
	return OtherMethods
}

// Host returns a host in lower case, without its port and without final dots.
func Host(host string) string {
	if strings.HasPrefix(host, "[") { // an IPv6 address
		if end := strings.IndexByte(host, ']'); end > 0 {
			host = host[:end+1]
		}
	} else if at := strings.IndexByte(host, ':'); at >= 0 {
		host = host[:at]
	}
	for strings.HasSuffix(host, ".") {
		host = host[:len(host)-1]
	}
	return strings.ToLower(host)
}
