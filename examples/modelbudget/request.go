package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// api describes the requests of a path.
type api struct {
	anthropic     bool // otherwise OpenAI's
	answers       bool // the answer has tokens
	streamOptions bool // a stream has a usage only if requested
}

var apis = map[string]api{
	"/v1/chat/completions": {answers: true, streamOptions: true},
	"/v1/completions":      {answers: true, streamOptions: true},
	"/v1/responses":        {answers: true},
	"/v1/embeddings":       {},
	"/v1/messages":         {answers: true, anthropic: true},
}

const (
	bytesPerToken = 4       // of English text; the settlement uses the API's figures
	maxTokens     = 1 << 50 // bounds all numbers in requests and answers
)

// read estimates the costs of a request, and returns its body. It makes the request ask for the usage.
func (b *bill) read(a api, body []byte, output int64) ([]byte, error) {
	// A map distinguishes the case of names, as the API does: a struct would accept Max_Tokens.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, errors.New("the body is not a JSON object")
	}
	if isTrue(fields["background"]) {
		return nil, errors.New("background is not supported, since this proxy has to see the answer")
	}
	b.input = int64(len(body)/bytesPerToken + 1)
	if a.answers {
		b.output = number(fields, output, "max_tokens", "max_completion_tokens", "max_output_tokens")
		b.output = min(maxTokens, b.output*number(fields, 1, "n", "best_of"))
	}
	b.settled = b.estimate()
	if a.streamOptions && isTrue(fields["stream"]) {
		var options map[string]json.RawMessage
		if err := json.Unmarshal(fields["stream_options"], &options); err != nil || options == nil {
			options = make(map[string]json.RawMessage) // invalid for the API too
		}
		if !isTrue(options["include_usage"]) {
			b.hideUsage = true
			options["include_usage"] = json.RawMessage("true")
			var err error
			if fields["stream_options"], err = encode(options); err == nil {
				body, err = encode(fields)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return body, nil
}

func isTrue(value json.RawMessage) bool { return string(value) == "true" }

// number returns the largest of the fields that are numbers above 0, or a default.
func number(fields map[string]json.RawMessage, otherwise int64, names ...string) int64 {
	var most int64
	for _, name := range names {
		var n float64 // accepts 1e3
		if json.Unmarshal(fields[name], &n) == nil && n >= 1 {
			most = max(most, int64(min(n, 1<<25)))
		}
	}
	if most == 0 {
		return otherwise
	}
	return most
}

// encode writes fields unchanged, except for their order.
func encode(fields map[string]json.RawMessage) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(fields)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// withBody replaces the body of a request.
func withBody(r *http.Request, body []byte) *http.Request {
	r.Body = io.NopCloser(bytes.NewReader(body))
	// GetBody allows a retry on a connection that was just closed.
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	return r
}
