package main

import "encoding/json"

// usage is the usage of an answer, by OpenAI's names or by Anthropic's. It does not include tokens that
// Anthropic read from its cache, which do not count for its limits either.
type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	Cached     int64 `json:"cache_creation_input_tokens"`
}

func (u usage) input() int64 { return bounded(u.Prompt) + bounded(u.Input) + bounded(u.Cached) }

func (u usage) output() int64 { return bounded(u.Completion) + bounded(u.Output) }

func (u usage) total() int64 { return u.input() + u.output() }

func bounded(n int64) int64 { return min(max(n, 0), maxTokens) }

// add adds the cumulative usage of a later event, which may omit earlier fields.
func (u *usage) add(later usage) {
	for _, field := range []struct {
		sum   *int64
		later int64
	}{
		{&u.Prompt, later.Prompt}, {&u.Completion, later.Completion},
		{&u.Input, later.Input}, {&u.Output, later.Output}, {&u.Cached, later.Cached},
	} {
		*field.sum = max(*field.sum, field.later)
	}
}

// chunk is an answer, or an event of a stream.
type chunk struct {
	Usage    *usage                  // of an answer, of OpenAI's last chunk, of Anthropic's message_delta
	Message  *struct{ Usage *usage } // of Anthropic's message_start: the input and the output so far
	Response *struct{ Usage *usage } // of OpenAI's response.completed
	Choices  *[]json.RawMessage
}

// final returns the usage of the whole answer, or nil.
func (c *chunk) final() *usage {
	if c.Usage == nil && c.Response != nil {
		return c.Response.Usage
	}
	return c.Usage
}
