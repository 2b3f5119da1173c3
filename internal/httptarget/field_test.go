package httptarget

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFields_OtherServers_ReadOtherValues: a proxy, CGI or a server that knows trailers.
func TestFields_OtherServers_ReadOtherValues(t *testing.T) {
	h := func(pairs ...string) http.Header {
		all := make(http.Header)
		for i := 0; i < len(pairs); i += 2 {
			all.Add(pairs[i], pairs[i+1])
		}
		return all
	}
	a, socket := []string{"a"}, []string{"websocket"}
	for name, c := range map[string]struct {
		headers, trailer http.Header
		sent             []string
		clear            bool
	}{
		"sent":                     {h("X-Tenant", "a"), nil, a, true},
		"not sent":                 {h("Connection", "X-Tenant"), nil, nil, true},
		"kept alive":               {h("X-Tenant", "a", "Connection", "keep-alive"), nil, a, true},
		"named":                    {h("X-Tenant", "a", "Connection", "x-tenant"), nil, a, false},
		"named in a list":          {h("X-Tenant", "a", "Connection", "close,\tX-TENANT "), nil, a, false},
		"named in the second line": {h("X-Tenant", "a", "Connection", "close", "Connection", "x-tenant"), nil, a, false},
		"named with a parameter":   {h("X-Tenant", "a", "Connection", `close, "x-tenant";q=1`), nil, a, false},
		"named for a proxy":        {h("X-Tenant", "a", "Proxy-Connection", "x-tenant"), nil, a, false},
		"a part of a name":         {h("X-Tenant", "a", "Connection", "x-tenants, tenant, x_tenant"), nil, a, true},
		"upgraded":                 {h("Upgrade", "websocket", "Connection", "Upgrade"), nil, socket, true},
		"upgraded by one item":     {h("Upgrade", "websocket", "Connection", "keep-alive , upgrade"), nil, socket, true},
		"upgraded by no item":      {h("Upgrade", "websocket", "Connection", "Upgrade;q=1"), nil, socket, false},
		"upgraded for a proxy":     {h("Upgrade", "websocket", "Proxy-Connection", "Upgrade"), nil, socket, false},
		"not upgraded":             {h("Upgrade", "websocket"), nil, socket, false},
		"with underscores":         {h("X_Tenant", "b"), nil, []string{"b"}, false},
		"with both":                {h("X_TENANT", "b", "X-Tenant", "a"), nil, []string{"a", "b"}, false},
		"a trailer":                {h("X-Tenant", "a"), http.Header{"X-Tenant": nil}, []string{"a", ""}, false},
		"a trailer alone":          {h(), http.Header{"X-Tenant": nil}, []string{""}, false},
	} {
		field := "X-Tenant"
		if c.headers["Upgrade"] != nil {
			field = "Upgrade"
		}
		sent, clear := ReadFields(c.headers, c.trailer).Get(field)
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
		"Basic YTpi": {"basic YTpi", true, nil},
		"basic YTo=": {"basic YTo=", true, nil}, "basic YTp=": {"basic YTo=", false, nil},
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
