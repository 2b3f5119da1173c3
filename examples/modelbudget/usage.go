package main

import "encoding/json"

// usage is what an answer says it has used, by OpenAI's names or by Anthropic's. Tokens that Anthropic read from its cache are not
// among them: they do not count for its limits either.
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

func bounded(n int64) int64 { return min(max(n, 0), mostTokens) }

// add adds what a later event says. It tells all that was used by then, but need not tell again what it told before.
func (u *usage) add(later usage) {
	for _, field := range []struct {
		sum   *int64
		later int64
	}{{&u.Prompt, later.Prompt}, {&u.Completion, later.Completion}, {&u.Input, later.Input}, {&u.Output, later.Output}, {&u.Cached, later.Cached}} {
		*field.sum = max(*field.sum, field.later)
	}
}

// chunk is an answer, or an event of one that is streamed.
type chunk struct {
	Usage    *usage                  // of an answer, of OpenAI's last chunk, of Anthropic's message_delta
	Message  *struct{ Usage *usage } // of Anthropic's message_start: the input, and the output by then
	Response *struct{ Usage *usage } // of OpenAI's response.completed
	Choices  *[]json.RawMessage
}

// final is the usage where it is that of the whole answer.
func (c *chunk) final() *usage {
	if c.Usage == nil && c.Response != nil {
		return c.Response.Usage
	}
	return c.Usage
}
