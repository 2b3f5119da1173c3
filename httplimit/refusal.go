package httplimit

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// problem is a problem document (RFC 9457).
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"` // the names of policies
}

// ianaTypes is the registry of problem types.
const ianaTypes = "https://iana.org/assignments/http-problem-types#"

var reducedCapacity = problem{
	ianaTypes + "temporary-reduced-capacity", "Requests cannot be admitted at the moment.",
	http.StatusServiceUnavailable, "", nil,
}.document()

func (p problem) document() []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return append(text, '\n')
}

// dropContent removes the headers that an outer handler has set for the content of another response, as
// the errors of [http.ServeContent] do. No cache may store a refusal.
func dropContent(w http.ResponseWriter) {
	h := w.Header()
	for _, name := range []string{"Content-Length", "Etag", "Last-Modified"} {
		delete(h, name)
	}
	h["Cache-Control"] = []string{"no-store"}
	for own, ok := w.(*writer); ok; own, ok = w.(*writer) {
		w = own.ResponseWriter
	}
	// The writer of another package may compress what is written, as that of gorilla's CompressHandler.
	if t := reflect.TypeOf(w); t.Kind() == reflect.Pointer && strings.HasPrefix(t.Elem().PkgPath(), "net/http") {
		delete(h, "Content-Encoding")
	}
}

// writeRefusal answers in place of the handler. The headers are set before.
func writeRefusal(w http.ResponseWriter, o *guard.Decided) {
	status, text := http.StatusServiceUnavailable, reducedCapacity
	switch o.Result {
	case limit.Invalid:
		status = http.StatusBadRequest
		if errors.Is(o.Err, ErrLengthRequired) {
			status = http.StatusLengthRequired
		}
		p := problem{"about:blank", http.StatusText(status), status, "", nil}
		if field := guard.LackOf(o.Err); field != "" {
			p.Detail = "The request needs one value of the " + field + "."
		}
		text = p.document()
	case limit.Rejected:
		status = cmp.Or(o.Denied, http.StatusTooManyRequests)
		p := problem{ianaTypes + "quota-exceeded", "The request is over its limit.", status, "", o.Violated}
		if status != http.StatusTooManyRequests {
			p = problem{"about:blank", http.StatusText(status), status, "", nil}
		}
		text = p.document()
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client has left
}
