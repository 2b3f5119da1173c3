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

// nginxConf is the configuration of docs/rules.md, with ports and files of the test.
const nginxConf = `
daemon off;
pid DIR/pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	server {
		listen LISTEN;
		location / {
			auth_request /_limit;
			auth_request_set $limit_left $upstream_http_ratelimit_remaining;
			auth_request_set $limit_retry $upstream_http_retry_after;
			error_page 403 = @limited;
			add_header RateLimit-Remaining $limit_left;
			proxy_pass http://UPSTREAM;
		}
		location = /_limit {
			internal;
			proxy_pass http://SERVICE/auth?denied=403;
			proxy_pass_request_body off;
			proxy_set_header Content-Length "";
			proxy_set_header X-Forwarded-Method $request_method;
			proxy_set_header X-Forwarded-Uri $request_uri;
			proxy_set_header X-Forwarded-Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
		location @limited {
			add_header Retry-After $limit_retry always;
			return 429;
		}
	}
}
`

// nginx limits requests by the rules, and returns 429 for its 403.
func TestNginx_AuthRequest_LimitsRequests(t *testing.T) {
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin") // where Debian has it
	program, err := exec.LookPath("nginx")
	require.NoError(t, err, "no nginx: install nginx-light, as make test-proxies does")
	s := start(t)
	dir, listen := t.TempDir(), port(freePort(t))
	file := filepath.Join(dir, "nginx.conf")
	// The peer is 127.0.0.1 here, like a proxy: another address stands for the client.
	text := strings.NewReplacer("DIR", dir, "LISTEN", listen, "UPSTREAM", strings.TrimPrefix(s.upstream.URL, "http://"),
		"SERVICE", port(s.http), "$remote_addr", "203.0.113.9").Replace(nginxConf)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	proxy(t, "http://"+listen+"/_limit", program, "-e", "stderr", "-p", dir, "-c", file)

	var got []string
	for _, path := range []string{"/login", "/login?x=1", "/login", "/login", "/banned", "/", "/forbidden", "/"} {
		got = append(got, path+" "+get(t, "http://"+listen+path, "RateLimit-Remaining"))
	}
	assert.Equal(t, []string{
		"/login 200 left 2", "/login?x=1 200 left 1", "/login 200 left 0", "/login 429 retry", "/banned 429", "/ 200 left 1",
		"/forbidden 403", "/ 429 retry",
	}, got, "a 403 of the program stays a 403")
	assert.EqualValues(t, 5, s.served.Load(), "rejected requests do not reach the program")

	require.NoError(t, s.redis.Kill())
	assert.Equal(t, "500", get(t, "http://"+listen+"/", ""), "on_failure: closed")
}
