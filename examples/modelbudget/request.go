package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// api is what has to be known of the requests to a path.
type api struct {
	anthropic     bool // else OpenAI's
	answers       bool // with tokens of its own
	streamOptions bool // tells the usage of a stream only where asked to
}

var apis = map[string]api{
	"/v1/chat/completions": {answers: true, streamOptions: true},
	"/v1/completions":      {answers: true, streamOptions: true},
	"/v1/responses":        {answers: true},
	"/v1/embeddings":       {},
	"/v1/messages":         {answers: true, anthropic: true},
}

const (
	bytesPerToken = 4       // of English; what is settled is what the API says
	mostTokens    = 1 << 50 // of anything that a request or an answer says
)

// newBill estimates what a request costs, and makes its body tell the usage in the end.
func newBill(a api, body []byte, output int64) (*bill, []byte, error) {
	// Names that differ in case are different ones, as they are for the API: a struct would take Max_Tokens for max_tokens.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, nil, errors.New("the body is no JSON object")
	}
	if isTrue(fields["background"]) {
		return nil, nil, errors.New("background is not possible, since this proxy has to see the answer")
	}
	b := &bill{input: int64(len(body)/bytesPerToken + 1)}
	if a.answers {
		b.output = number(fields, output, "max_tokens", "max_completion_tokens", "max_output_tokens")
		b.output = min(mostTokens, b.output*number(fields, 1, "n", "best_of"))
	}
	b.settled = b.estimate()
	if a.streamOptions && isTrue(fields["stream"]) {
		var options map[string]json.RawMessage
		if err := json.Unmarshal(fields["stream_options"], &options); err != nil || options == nil {
			options = make(map[string]json.RawMessage) // what was there is nothing that the API would take
		}
		if !isTrue(options["include_usage"]) {
			b.hideUsage = true
			options["include_usage"] = json.RawMessage("true")
			var err error
			if fields["stream_options"], err = encode(options); err == nil {
				body, err = encode(fields)
			}
			if err != nil {
				return nil, nil, err
			}
		}
	}
	return b, body, nil
}

func isTrue(value json.RawMessage) bool { return string(value) == "true" }

// number is the largest of some fields that are whole numbers above 0, or another one where none is.
func number(fields map[string]json.RawMessage, otherwise int64, names ...string) int64 {
	var most int64
	for _, name := range names {
		var n float64 // which reads 1e3 too
		if json.Unmarshal(fields[name], &n) == nil && n >= 1 {
			most = max(most, int64(min(n, 1<<25)))
		}
	}
	if most == 0 {
		return otherwise
	}
	return most
}

// encode writes fields as they were, but for their order.
func encode(fields map[string]json.RawMessage) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(fields)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// withBody gives a request a body that has been read.
func withBody(r *http.Request, body []byte) *http.Request {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil } // for a connection that was just closed
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	return r
}
