package proxies

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/limit"
)

// nginxHead begins each configuration: nginx runs in the foreground, with all files in the folder of the test.
const nginxHead = `
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
`

// nginxConf is the configuration of docs/rules.md, with ports and files of the test.
const nginxConf = nginxHead + `
	server {
		listen LISTEN;
		location / {
			auth_request /_limit;
			auth_request_set $limit_left $upstream_http_ratelimit_remaining;
			auth_request_set $limit_retry $upstream_http_retry_after;
			error_page 403 = @limited; error_page 500 = @unavailable;
			add_header RateLimit-Remaining $limit_left;
			proxy_pass http://UPSTREAM;
		}
		location = /_limit {
			internal;
			proxy_pass http://SERVICE/auth?denied=403;
			proxy_pass_request_body off; proxy_set_header Content-Length "";
			proxy_set_header X-Forwarded-Method $request_method; proxy_set_header X-Forwarded-Uri $request_uri;
			proxy_set_header X-Forwarded-Host $host; proxy_set_header X-Forwarded-For $remote_addr;
			# error_page 502 504 = @absent;
		}
		location @limited {
			if ($limit_retry = "") { return 403; }
			add_header Retry-After $limit_retry always; return 429;
		}
		location @unavailable {
			add_header Retry-After $limit_retry always; return 503;
		}
		location @absent { return 204; }
	}
}
`

// nginxAt starts nginx with a configuration and returns its URL. The peer is 127.0.0.1 here, like a
// proxy: another address stands for the client.
func nginxAt(t *testing.T, conf string, replace ...string) string {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin") // where Debian has it
	program, err := exec.LookPath("nginx")
	require.NoError(t, err, "no nginx: install nginx-light, as make test-proxies does")
	dir, listen := t.TempDir(), port(freePort())
	file := filepath.Join(dir, "nginx.conf")
	replace = append(replace, "DIR", dir, "LISTEN", listen, "$remote_addr", "203.0.113.9")
	text := strings.NewReplacer(replace...).Replace(conf)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	proxy(t, "http://"+listen+"/_limit", program, "-e", "stderr", "-p", dir, "-c", file)
	return "http://" + listen
}

// nginx limits requests by the rules, and returns 429 for its 403.
func TestNginx_AuthRequest_LimitsRequests(t *testing.T) {
	page := golden.Text(t, "../../../docs/rules.md")
	shown := strings.NewReplacer("http://program", "http://UPSTREAM", "http://limits:8080", "http://SERVICE").
		Replace(golden.Code(page, "nginx")[0])
	for line := range strings.Lines(shown) {
		assert.Contains(t, nginxConf, strings.TrimSpace(line))
	}

	s := start(t)
	upstream := strings.TrimPrefix(s.upstream.URL, "http://")
	at := nginxAt(t, nginxConf, "UPSTREAM", upstream, "SERVICE", port(s.http))
	var got []string
	for _, path := range []string{
		"/login", "/login?x=1", "/login", "/login", "/banned", "/", "/forbidden", "/", "/a/..%2F",
	} {
		got = append(got, path+" "+get(t, at+path, "RateLimit-Remaining"))
	}
	assert.Equal(t, []string{
		"/login 200 left 2", "/login?x=1 200 left 1", "/login 200 left 0", "/login 429 retry", "/banned 403", "/ 200 left 1",
		"/forbidden 403", "/ 429 retry", "/a/..%2F 403",
	}, got, "a 403 of the program stays a 403")
	assert.EqualValues(t, 5, s.served.Load(), "rejected requests do not reach the program")

	require.NoError(t, s.redis.Kill())
	assert.Equal(t, "503 retry", get(t, at+"/", ""), "on_failure: closed")

	absent := port(freePort())
	assert.Equal(t, "503", get(t, nginxAt(t, nginxConf, "UPSTREAM", upstream, "SERVICE", absent)+"/", ""))
	open := strings.Replace(nginxConf, "# error_page", "error_page", 1)
	assert.Equal(t, "200", get(t, nginxAt(t, open, "UPSTREAM", upstream, "SERVICE", absent)+"/", ""))
	assert.Equal(t, "503 retry", get(t, nginxAt(t, open, "UPSTREAM", upstream, "SERVICE", port(s.http))+"/", ""),
		"on_failure: closed, of a service that answers")
}

// limitReqConf has the two kinds of nginx's own limits.
const limitReqConf = nginxHead + `
	limit_req_zone $remote_addr zone=one:1m rate=10r/s;
	limit_req_zone $remote_addr zone=two:1m rate=10r/s;
	server {
		listen LISTEN;
		location /nodelay { limit_req zone=one burst=20 nodelay; proxy_pass http://UPSTREAM; }
		location /delay { limit_req zone=two burst=20; proxy_pass http://UPSTREAM; }
	}
}
`

// TestNginx_LimitReq_IsAPolicy: 60 requests at once get the same from nginx and from a middleware.
func TestNginx_LimitReq_IsAPolicy(t *testing.T) {
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{servers.Single(t).Addr()}, DisableCache: true})
	client := rratelimiter.New(conn)
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	upstream := httptest.NewServer(hello)
	defer upstream.Close()
	mux := http.NewServeMux()
	mux.Handle("/nodelay", httplimit.Middleware(httplimit.All(limit.New(client, "nodelay",
		limit.TokenBucket{Capacity: 21, Refill: 10, Interval: time.Second})))(hello))
	mux.Handle("/delay", httplimit.Middleware(httplimit.All(limit.New(client, "delay",
		limit.TokenBucket{Capacity: 1, Refill: 10, Interval: time.Second})), httplimit.Wait(2*time.Second))(hello))
	ours := httptest.NewServer(mux)
	defer ours.Close()
	theirs := nginxAt(t, limitReqConf, "UPSTREAM", strings.TrimPrefix(upstream.URL, "http://"))
	for path, least := range map[string]int{"/nodelay": 19, "/delay": 15} { // a busy machine may end a wait
		for _, at := range []string{theirs, ours.URL} {
			served, took, late := 0, time.Duration(0), time.Duration(0)
			var mu sync.Mutex
			var all sync.WaitGroup
			begin := time.Now()
			for range 60 {
				all.Go(func() {
					granted := strings.HasPrefix(get(t, at+path, ""), "200")
					mu.Lock()
					defer mu.Unlock()
					if granted {
						served, took = served+1, time.Since(begin)
					} else {
						late = time.Since(begin)
					}
				})
			}
			all.Wait()
			t.Log(at+path, served, took, late)
			assert.GreaterOrEqual(t, served, least)
			assert.LessOrEqual(t, served, 23+int(10*late.Seconds()), "with what came free until the last refusal")
			paced := time.Duration(served-1)*time.Second/10 - 400*time.Millisecond
			assert.Equal(t, path == "/delay", took >= paced)
		}
	}
}

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
