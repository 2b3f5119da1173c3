package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// model is a language model that repeats its input word by word, by both APIs. A word is a token. The
// model names "broken" and "busy" answer 500 and 429.
type model struct {
	pause time.Duration // between the words of a stream
}

func newModel(pause time.Duration) http.Handler {
	m := model{pause}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", m.chat)
	mux.HandleFunc("POST /v1/messages", m.messages)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"object": "list", "data": []any{map[string]any{"id": "parrot", "object": "model"}}})
	})
	return mux
}

// prompt is a request of either API.
type prompt struct {
	Model         string
	Messages      []struct{ Content string }
	MaxTokens     int `json:"max_tokens"`
	Stream        bool
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// read reads a request and answers an invalid one.
func (model) read(w http.ResponseWriter, r *http.Request) (p prompt, input int, words []string, ok bool) {
	switch err := json.NewDecoder(r.Body).Decode(&p); {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return p, 0, nil, false
	case p.Model == "broken":
		http.Error(w, "broken", http.StatusInternalServerError)
		return p, 0, nil, false
	case p.Model == "busy":
		w.Header().Set("Retry-After", "7")
		http.Error(w, "busy", http.StatusTooManyRequests)
		return p, 0, nil, false
	}
	for _, message := range p.Messages {
		words = strings.Fields(message.Content)
		input += len(words)
	}
	if p.MaxTokens > 0 && len(words) > p.MaxTokens {
		words = words[:p.MaxTokens]
	}
	return p, input, words, true
}

func (m model) chat(w http.ResponseWriter, r *http.Request) {
	p, input, words, ok := m.read(w, r)
	if !ok {
		return
	}
	usage := map[string]any{"prompt_tokens": input, "completion_tokens": len(words), "total_tokens": input + len(words)}
	if !p.Stream {
		writeJSON(w, map[string]any{"object": "chat.completion", "usage": usage,
			"choices": []any{map[string]any{"index": 0,
				"message": map[string]any{"role": "assistant", "content": strings.Join(words, " ")}}}})
		return
	}
	events := newEvents(w)
	for _, word := range words {
		if events.send("", map[string]any{"object": "chat.completion.chunk",
			"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": word + " "}}}}) {
			time.Sleep(m.pause)
		}
	}
	if p.StreamOptions.IncludeUsage {
		events.send("", map[string]any{"object": "chat.completion.chunk", "choices": []any{}, "usage": usage})
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

func (m model) messages(w http.ResponseWriter, r *http.Request) {
	p, input, words, ok := m.read(w, r)
	if !ok {
		return
	}
	if !p.Stream {
		writeJSON(w, map[string]any{"type": "message",
			"usage":   map[string]any{"input_tokens": input, "output_tokens": len(words)},
			"content": []any{map[string]any{"type": "text", "text": strings.Join(words, " ")}}})
		return
	}
	events := newEvents(w)
	events.send("message_start", map[string]any{"type": "message_start",
		"message": map[string]any{"usage": map[string]any{"input_tokens": input, "output_tokens": 1}}})
	for _, word := range words {
		if events.send("content_block_delta", map[string]any{"type": "content_block_delta",
			"delta": map[string]any{"type": "text_delta", "text": word + " "}}) {
			time.Sleep(m.pause)
		}
	}
	events.send("message_delta", map[string]any{"type": "message_delta",
		"usage": map[string]any{"output_tokens": len(words)}})
	events.send("message_stop", map[string]any{"type": "message_stop"})
}

// events writes server-sent events.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newEvents(w http.ResponseWriter) events {
	w.Header().Set("Content-Type", "text/event-stream")
	return events{w, http.NewResponseController(w)}
}

// send sends an event at once and reports whether the client is still connected.
func (e events) send(name string, data any) bool {
	if name != "" {
		_, _ = fmt.Fprintf(e.w, "event: %s\n", name)
	}
	_, _ = fmt.Fprint(e.w, "data: ")
	if err := json.NewEncoder(e.w).Encode(data); err != nil {
		return false
	}
	_, _ = fmt.Fprintln(e.w)
	return e.control.Flush() == nil
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}
