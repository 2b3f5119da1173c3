package main

import (
	"compress/gzip"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"
)

// newProxy forwards requests to the API and settles for the usage in its answers.
func newProxy(c config, log *slog.Logger) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	transport.ResponseHeaderTimeout = 10 * time.Minute // the model ends before an answer that is not streamed
	transport.MaxIdleConnsPerHost = 100
	return &httputil.ReverseProxy{
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(c.upstream)
			h := r.Out.Header
			for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "Connection", "Upgrade", "Expect"} {
				h.Del(name)
			}
			if c.key != "" && apis[r.In.URL.Path].anthropic {
				h.Set("X-Api-Key", c.key)
			} else if c.key != "" {
				h.Set("Authorization", "Bearer "+c.key)
			}
			h.Set("Accept-Encoding", "identity") // to read the usage
		},
		ModifyResponse: func(resp *http.Response) error { return meter(resp, log) },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return // the user is gone; the model may have worked, so the estimate stands
			}
			log.Warn("no answer from the API", "path", r.URL.Path, "error", err)
			logUnsettled(log, billOf(r.Context()).giveBack(r.Context()))
			writeError(w, r, http.StatusBadGateway, "api_error", "The API did not answer.")
		},
	}
}

// meter arranges the settlement of an answer and removes headers for this proxy.
func meter(resp *http.Response, log *slog.Logger) error {
	// The API's limits are for all users together.
	for name := range resp.Header {
		if strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name,
			"Anthropic-Ratelimit-") || strings.HasPrefix(name, "Ratelimit") {
			resp.Header.Del(name)
		}
	}
	ctx := resp.Request.Context()
	b := billOf(ctx)
	switch {
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		logUnsettled(log, b.giveBack(ctx))
		return nil
	case b.estimate() == 0: // the list of models
		return nil
	case resp.StatusCode >= http.StatusMultipleChoices:
		logUnsettled(log, b.settle(ctx, 0)) // the API rejected the request
		return nil
	}
	if resp.Header.Get("Content-Encoding") == "gzip" { // though not requested
		plain, err := gzip.NewReader(resp.Body)
		if err != nil {
			return err
		}
		resp.Body = &unzipped{plain, resp.Body}
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
	}
	settle := func(tokens int64) { logUnsettled(log, b.settle(ctx, tokens)) }
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		resp.Body = newStream(resp.Body, b, settle)
		resp.Header.Del("Content-Length") // an event may be removed
		resp.ContentLength = -1
	} else {
		resp.Body = &document{ReadCloser: resp.Body, settle: settle}
	}
	return nil
}

// unzipped reads a compressed body.
type unzipped struct {
	io.Reader
	io.Closer
}

func logUnsettled(log *slog.Logger, err error) {
	if err != nil {
		log.Error("not settled", "error", err)
	}
}
