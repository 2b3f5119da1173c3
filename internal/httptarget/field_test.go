package httptarget

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestField_OtherServers_ReadOtherValues: a proxy, CGI or a server that knows trailers.
func TestField_OtherServers_ReadOtherValues(t *testing.T) {
	h := func(pairs ...string) http.Header {
		all := make(http.Header)
		for i := 0; i < len(pairs); i += 2 {
			all.Add(pairs[i], pairs[i+1])
		}
		return all
	}
	for name, c := range map[string]struct {
		headers, trailer http.Header
		field            string
		sent             []string
		clear            bool
	}{
		"sent":                     {h("X-Tenant", "a"), nil, "X-Tenant", []string{"a"}, true},
		"not sent":                 {h("Connection", "X-Tenant"), nil, "X-Tenant", nil, true},
		"kept alive":               {h("X-Tenant", "a", "Connection", "keep-alive"), nil, "X-Tenant", []string{"a"}, true},
		"named":                    {h("X-Tenant", "a", "Connection", "x-tenant"), nil, "X-Tenant", []string{"a"}, false},
		"named in a list":          {h("X-Tenant", "a", "Connection", "close,\tX-TENANT "), nil, "X-Tenant", []string{"a"}, false},
		"named in the second line": {h("X-Tenant", "a", "Connection", "close", "Connection", "x-tenant"), nil, "X-Tenant", []string{"a"}, false},
		"named with a parameter":   {h("X-Tenant", "a", "Connection", `close, "x-tenant";q=1`), nil, "X-Tenant", []string{"a"}, false},
		"named for a proxy":        {h("X-Tenant", "a", "Proxy-Connection", "x-tenant"), nil, "X-Tenant", []string{"a"}, false},
		"a part of a name":         {h("X-Tenant", "a", "Connection", "x-tenants, tenant, x_tenant"), nil, "X-Tenant", []string{"a"}, true},
		"upgraded":                 {h("Upgrade", "websocket", "Connection", "Upgrade"), nil, "Upgrade", []string{"websocket"}, true},
		"upgraded by one item":     {h("Upgrade", "websocket", "Connection", "keep-alive , upgrade"), nil, "Upgrade", []string{"websocket"}, true},
		"upgraded by no item":      {h("Upgrade", "websocket", "Connection", "Upgrade;q=1"), nil, "Upgrade", []string{"websocket"}, false},
		"upgraded for a proxy":     {h("Upgrade", "websocket", "Proxy-Connection", "Upgrade"), nil, "Upgrade", []string{"websocket"}, false},
		"not upgraded":             {h("Upgrade", "websocket"), nil, "Upgrade", []string{"websocket"}, false},
		"with underscores":         {h("X_Tenant", "b"), nil, "X-Tenant", []string{"b"}, false},
		"with both":                {h("X_TENANT", "b", "X-Tenant", "a"), nil, "X-Tenant", []string{"a", "b"}, false},
		"a trailer":                {h("X-Tenant", "a"), http.Header{"X-Tenant": nil}, "X-Tenant", []string{"a", ""}, false},
		"a trailer alone":          {h(), http.Header{"X-Tenant": nil}, "X-Tenant", []string{""}, false},
	} {
		sent, clear := Field(c.headers, c.trailer, c.field)
		assert.Equal(t, c.sent, sent, name)
		assert.Equal(t, c.clear, clear, name)
	}
}

func TestFieldValue_Spellings_AreOne(t *testing.T) {
	for sent, want := range map[string]struct {
		text  string
		exact bool
		err   error
	}{
		"Bearer x": {"bearer x", true, nil}, "bearer x": {"bearer x", true, nil}, " BEARER  x ": {"bearer x", false, nil},
		"Bearer\tx": {"bearer x", false, nil}, "Bearer X": {"bearer X", true, nil}, "Key": {"key", true, nil},
		`Digest a="b", c=d`: {`digest a="b", c=d`, true, nil}, "": {"", true, nil},
		"Basic YTpi": {"basic YTpi", true, nil}, "basic YTo=": {"basic YTo=", true, nil}, "basic YTp=": {"basic YTo=", false, nil},
		"Basic YT-pi": {"basic YT-pi", true, errBasic}, "Basic YTo": {"basic YTo", true, errBasic},
		"Basic YT pi": {"basic YT pi", true, errBasic},
	} {
		text, exact, err := FieldValue("Authorization", sent)
		assert.Equal(t, want.text, text, sent)
		assert.Equal(t, want.exact, exact, sent)
		assert.Equal(t, want.err, err, sent)
	}
	text, exact, err := FieldValue("X-Authorization", "\tBearer  x")
	assert.Equal(t, "Bearer  x", text)
	assert.False(t, exact)
	assert.NoError(t, err)
}
