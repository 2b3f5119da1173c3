package httplimit

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// problem is a kind of problem document (RFC 9457). Without a kind of IANA, it is about:blank,
// whose title is that of the status.
type problem struct {
	kind, title string
	status      int
}

var (
	quotaExceeded = problem{"quota-exceeded", "The request is over its limit.", http.StatusTooManyRequests}
	reduced       = problem{"temporary-reduced-capacity", "Requests cannot be admitted at the moment.",
		http.StatusServiceUnavailable}

	badRequest     = problem{"", "Bad Request", http.StatusBadRequest}
	lengthRequired = problem{"", "Length Required", http.StatusLengthRequired}
)

// newProblem returns a problem document that names the violated policies.
func newProblem(p problem, violated []string) []byte {
	var text []byte
	text = append(text, `{"type":"`...)
	if p.kind == "" {
		text = append(text, "about:blank"...)
	} else {
		text = append(append(text, "https://iana.org/assignments/http-problem-types#"...), p.kind...)
	}
	text = append(text, `","title":"`...)
	text = append(text, p.title...)
	text = append(text, `","status":`...)
	text = strconv.AppendInt(text, int64(p.status), 10)
	if len(violated) > 0 {
		names, err := json.Marshal(violated)
		if err == nil { // strings always encode
			text = append(append(text, `,"violated-policies":`...), names...)
		}
	}
	return append(text, "}\n"...)
}

var reducedProblem = newProblem(reduced, nil)

// writeRefusal answers in place of the handler. The headers are set before.
func writeRefusal(w http.ResponseWriter, o *Outcome) {
	if o.answer.Invalid {
		p := badRequest
		if errors.Is(o.Err, ErrLengthRequired) {
			p = lengthRequired
		}
		w.WriteHeader(p.status)
		_, _ = w.Write(newProblem(p, nil))
		return
	}
	if o.Result != Rejected {
		w.WriteHeader(reduced.status)
		_, _ = w.Write(reducedProblem) // an error means that the client has left
		return
	}
	text := o.policies.problem
	if len(o.policies.Names) > 1 {
		text = newProblem(quotaExceeded, o.Violated())
	}
	w.WriteHeader(quotaExceeded.status)
	_, _ = w.Write(text)
}
