package proxies

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// caddyfile has forward_auth as in docs/rules.md. The peer is 127.0.0.1, like a proxy: another
// address stands for the client.
const caddyfile = `
{
	admin off
	auto_https off
}
http://LISTEN {
	handle /ready {
		respond ready
	}
	handle {
		forward_auth SERVICE {
			uri /auth?
			header_up X-Forwarded-For 203.0.113.9
		}
		reverse_proxy UPSTREAM
	}
}
`

// Caddy limits requests by the rules, and returns its rejections.
func TestCaddy_ForwardAuth_LimitsRequests(t *testing.T) {
	program, err := exec.LookPath("caddy")
	require.NoError(t, err, "no caddy: install it, as make test-proxies does")
	s := start(t)
	dir, listen := t.TempDir(), port(freePort())
	t.Setenv("XDG_CONFIG_HOME", dir) // where it writes
	t.Setenv("XDG_DATA_HOME", dir)
	file := filepath.Join(dir, "Caddyfile")
	text := strings.NewReplacer("LISTEN", listen, "UPSTREAM", strings.TrimPrefix(s.upstream.URL, "http://"), "SERVICE",
		port(s.http)).Replace(caddyfile)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	proxy(t, "http://"+listen+"/ready", program, "run", "--config", file, "--adapter", "caddyfile")

	var got []string
	for _, path := range []string{"/login", "/login?x=1", "/login", "/login", "//login", "/banned", "/banned?denied=403",
		"/?denied=x", "/forbidden", "/"} {
		got = append(got, path+" "+get(t, "http://"+listen+path, "RateLimit-Remaining"))
	}
	assert.Equal(t, []string{
		"/login 200", "/login?x=1 200", "/login 200", "/login 429 left 0 retry", "//login 429 left 0 retry", "/banned 403",
		"/banned?denied=403 403", "/?denied=x 200", "/forbidden 403", "/ 429 left 0 retry",
	}, got)
	assert.EqualValues(t, 5, s.served.Load(), "rejected requests do not reach the program")

	require.NoError(t, s.redis.Kill())
	assert.Equal(t, "503 retry", get(t, "http://"+listen+"/", ""), "on_failure: closed")
}
