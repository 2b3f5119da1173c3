package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // named in envoy.yaml
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // named in envoy.yaml
	"github.com/google/uuid"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestToolPage_Console_IsTheOutput: every command of docs/tool.md is run in the order of the page,
// on an in-memory Redis whose clock stands still. "rrl" stands for the tool with its Redis.
func TestToolPage_Console_IsTheOutput(t *testing.T) {
	page, err := filepath.Abs("../../../../docs/tool.md")
	require.NoError(t, err)
	m := startMemory(t)
	story(m)
	filesOfThePage(t)
	commands := 0
	golden.Blocks(t, page, regexp.MustCompile("(?s)```console\n(.*?)```"), func(parts []string) string {
		said := ""
		for _, part := range strings.Split("\n"+parts[1], "\n$ ")[1:] {
			line, _, _ := strings.Cut(part, "\n")
			commands++
			said += "$ " + line + "\n" + m.says(line)
		}
		return "```console\n" + said + "```"
	})
	require.Greater(t, commands, 8)
}

// story is what the page is about.
func story(m *inMemory) {
	ctx := context.Background()
	lib := rratelimiter.New(m.Client, rratelimiter.WithClock(m.now))
	api := lib.Limiter("paid-api")
	require.NoError(m, api.SetRate(ctx, rratelimiter.Rate{Permits: 100, Interval: time.Minute}))
	for _, n := range []int64{30, 40, 17} {
		require.NoError(m, redistest.Err(api.TryAcquire(ctx, n)))
		m.pass(10 * time.Second)
	}
	for i, id := range []string{client1, client2} {
		l := rratelimiter.New(m.Client, rratelimiter.WithClock(m.now),
			rratelimiter.WithClientID(uuid.MustParse(id))).Limiter("exports")
		_, err := l.TrySetRate(ctx, rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 20, Interval: 5 * time.Second,
			KeepAlive: time.Hour})
		require.NoError(m, err)
		require.NoError(m, redistest.Err(l.TryAcquire(ctx, int64(5+13*i))))
	}
	require.Equal(m, "granted: 3 of login:ada, 2 left of 5\n", m.says("rrl try login:ada -n 3 --policy fixed_window:5/1m"))
	// A program that was no good.
	require.NoError(m, lib.Limiter("legacy").SetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Minute}))
	require.NoError(m, m.server.Set("{legacy}:value", "4"))
	require.NoError(m, m.server.Set("{gone}:value:"+client1, "4"))
}

// filesOfThePage makes a folder with the files that the page is about, and goes there.
func filesOfThePage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "limits"), os.DirFS(deployed+"limits")))
	rules := golden.Text(t, "../../../../rules/testdata/rules.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o600))
	const wrong = `domain: edge
descriptors:
  - key: remote_address
    rate_limit: {unit: fortnight, requests_per_unit: 5}
  - value: /login
    rate_limit: {unit: day, requests_per_unit: 5, shadow_mode: true}
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "wrong.yaml"), []byte(wrong), 0o600))
	t.Chdir(dir)
}

// says runs a line of a shell that begins with rrl, and gives all that is said.
func (m *inMemory) says(line string) string {
	line, code := strings.CutSuffix(line, "; echo $?")
	args := strings.Fields(line)
	require.Equal(m, "rrl", args[0], line)
	for i, arg := range args {
		args[i] = strings.Trim(arg, `'"`)
	}
	var out bytes.Buffer
	a := &app{out: &out, err: &out, clock: m.now}
	ended := a.run(context.Background(), append(args[1:], "--redis", "redis://"+m.server.Addr()))
	if code {
		out.WriteString(string(rune('0'+ended)) + "\n")
	}
	return out.String()
}

// page is a page of the documentation.
func page(t *testing.T, name string) string { return golden.Text(t, "../../../../docs/"+name) }

// section returns a part of a page.
func section(t *testing.T, page, head string) string {
	t.Helper()
	return golden.Between(t, page, "\n## "+head+"\n", "\n## ")
}

// Each command of rrl serve that the pages show is run, with files, addresses and a Redis of the test.
func TestPages_ServeCommands_Run(t *testing.T) {
	limits, err := filepath.Abs(deployed + "limits")
	require.NoError(t, err)
	i, socket := newIdentity(t), filepath.Join(t.TempDir(), "rrl.sock")
	replace := strings.NewReplacer("/etc/rls", limits, "redis://redis:6379", "redis://"+miniredis.RunT(t).Addr(),
		"/run/tls/tls.crt", i.cert, "/run/tls/tls.key", i.key, "/run/tls/ca.crt", i.ca, "/run/rls/rrl.sock", socket,
		"--drain 5s", "--drain 1ms", "127.0.0.1:8080", "127.0.0.1:0",
		"--rules /etc/shop/rules.yaml", "--grpc= --rules "+written(t, "rules.yaml", webRules))
	t.Setenv("REDIS_URL", replace.Replace("redis://redis:6379"))
	commands := 0
	for _, name := range []string{"tool.md", "envoy.md"} {
		for _, block := range golden.Code(page(t, name), "sh") {
			for line := range strings.Lines(block) {
				line, _, _ = strings.Cut(line, " #")
				args, ok := strings.CutPrefix(strings.TrimSpace(line), "rrl serve ")
				if !ok {
					continue
				}
				commands++
				s := started(t, strings.Fields(replace.Replace(args))...)
				s.says("rrl: serving")
				assert.Equal(t, exitDone, s.stop(), line)
			}
		}
	}
	assert.Equal(t, 7, commands)
}

// docs/tool.md has each flag of rrl serve with its default, and no other.
func TestToolPage_Serve_HasEachFlag(t *testing.T) {
	shown := make(map[string]string)
	rows := regexp.MustCompile("(?m)^\\| (`--[^|]*) \\|([^|]*)\\|")
	for _, row := range rows.FindAllStringSubmatch(section(t, page(t, "tool.md"), "Serve"), -1) {
		for _, flag := range strings.Split(row[1], ", ") {
			shown[strings.Trim(flag, "`-")] = strings.Trim(row[2], "` ")
		}
	}
	flags := make(map[string]string)
	(&app{}).serve().Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = f.DefValue })
	assert.Equal(t, flags, shown)
}

// The parts of a cluster that docs/envoy.md shows for TLS and a socket are what Envoy takes.
func TestEnvoyPage_SecureClusters_AreValid(t *testing.T) {
	shown := golden.Code(section(t, page(t, "envoy.md"), "TLS and unix sockets"), "yaml")
	require.Len(t, shown, 2)
	for n, block := range shown {
		made := new(cluster.Cluster)
		require.NoError(t, protojson.Unmarshal(yamlToJSON(t, block)[0], made))
		made.Name = "limits"
		static := &bootstrap.Bootstrap_StaticResources{Clusters: []*cluster.Cluster{made}}
		require.NoError(t, (&bootstrap.Bootstrap{StaticResources: static}).ValidateAll())
		if n == 0 {
			tls := new(upstream.UpstreamTlsContext)
			require.NoError(t, made.GetTransportSocket().GetTypedConfig().UnmarshalTo(tls))
			require.NoError(t, tls.ValidateAll())
			continue
		}
		at := made.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetPipe().GetPath()
		assert.Contains(t, page(t, "envoy.md"), "--grpc unix:"+at+"\n")
	}
}

// deployed is the folder of what deploys the service.
const deployed = "../../../../examples/deploy/"

// yamlToJSON converts the documents of a YAML text.
func yamlToJSON(t *testing.T, text string) (documents [][]byte) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var values any
		err := decoder.Decode(&values)
		if errors.Is(err, io.EOF) {
			return documents
		}
		require.NoError(t, err)
		document, err := json.Marshal(values)
		require.NoError(t, err)
		documents = append(documents, document)
	}
}

// edgeEnvoy is envoy.yaml, read as Envoy does: a field that it does not know, or of another type, is an error.
func edgeEnvoy(t *testing.T) (*bootstrap.Bootstrap, *manager.HttpConnectionManager, *filter.RateLimit) {
	t.Helper()
	config := new(bootstrap.Bootstrap)
	require.NoError(t, protojson.Unmarshal(yamlToJSON(t, golden.Text(t, deployed+"envoy.yaml"))[0], config))
	require.NoError(t, config.ValidateAll())
	http := new(manager.HttpConnectionManager)
	first := config.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0]
	require.NoError(t, first.GetTypedConfig().UnmarshalTo(http))
	limit := new(filter.RateLimit)
	require.NoError(t, http.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(limit))
	return config, http, limit
}

// TestDeploy_EnvoyDescriptors_HaveLimits: each descriptor of envoy.yaml has a limit in its domain, and each path
// has one reading, so that /x/../login and //login are limited as /login.
func TestDeploy_EnvoyDescriptors_HaveLimits(t *testing.T) {
	_, http, limit := edgeEnvoy(t)
	assert.True(t, http.GetNormalizePath().GetValue())
	assert.True(t, http.GetMergeSlashes())
	assert.Equal(t, manager.HttpConnectionManager_REJECT_REQUEST, http.GetPathWithEscapedSlashesAction())
	assert.Equal(t, "edge", limit.GetDomain())
	s := serve(t, deployed+"limits", "--redis", "redis://"+miniredis.RunT(t).Addr())
	asked := 0
	for _, r := range http.GetRouteConfig().GetVirtualHosts()[0].GetRoutes() {
		for _, made := range r.GetRoute().GetRateLimits() {
			var entries []string
			for _, action := range made.GetActions() {
				switch action := action.GetActionSpecifier().(type) {
				case *route.RateLimit_Action_GenericKey_:
					entries = append(entries, action.GenericKey.GetDescriptorKey()+"="+action.GenericKey.GetDescriptorValue())
				case *route.RateLimit_Action_RemoteAddress_:
					entries = append(entries, "remote_address=192.0.2.1")
				default:
					t.Fatalf("%T is not looked at", action)
				}
			}
			answer, err := s.ask(t.Context(), entries...)
			require.NoError(t, err)
			assert.NotNil(t, answer.GetStatuses()[0].GetCurrentLimit(), "%q has no limit", entries)
			asked++
		}
	}
	assert.Equal(t, 3, asked)
}

// TestDeploy_Files_Agree: the files have the same ports, paths and limits, which are also those of the tool.
func TestDeploy_Files_Agree(t *testing.T) {
	flags := (&app{}).serve().Flags()
	grpc, http := flags.Lookup("grpc").DefValue[1:], flags.Lookup("http").DefValue[1:]

	kubernetes := golden.Text(t, deployed+"kubernetes.yaml")
	require.Len(t, yamlToJSON(t, kubernetes), 3)
	for _, part := range []string{
		"{name: grpc, containerPort: " + grpc + "}", "{name: http, containerPort: " + http + "}",
		"{name: grpc, port: " + grpc + ", targetPort: grpc}", "{name: http, port: " + http + ", targetPort: http}",
		"startupProbe: {grpc: {port: " + grpc + "}", "readinessProbe: {grpc: {port: " + grpc + "}",
		"livenessProbe: {grpc: {port: " + grpc + "}", "clusterIP: None",
		"matchLabels: {app: limits}", "labels: {app: limits}", "\n  selector: {app: limits}",
		"runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false",
		"terminationGracePeriodSeconds: 30 ", "--drain=10s", // five seconds and more between them
		"{name: GOMEMLIMIT, value: 100MiB}", "limits: {memory: 128Mi}", // what is not the heap has room too
		"{name: limits, mountPath: /etc/rls, readOnly: true}", "[serve, /etc/rls, ", "configMap: {name: limits}",
		"{name: redis, mountPath: /run/redis, readOnly: true}", "=/run/redis/password", "secret: {secretName: redis}",
	} {
		assert.Contains(t, kubernetes, part)
	}
	assert.Equal(t, 3, strings.Count(kubernetes, "metadata:\n  name: limits\n"))
	entries, err := os.ReadDir(deployed + "limits")
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Contains(t, unindented(kubernetes), "edge.yaml: |\n"+unindented(golden.Text(t, deployed+"limits/edge.yaml")))

	compose := golden.Text(t, deployed+"compose.yaml")
	// The Envoy that integration/compatibility/proxies runs with this file.
	fetch := golden.Text(t, "../../../../integration/compatibility/proxies/envoy.sh")
	version := regexp.MustCompile(`(?m)^version=(\S+)`).FindStringSubmatch(fetch)
	for _, part := range []string{
		"\n  envoy:\n    image: envoyproxy/envoy:v" + version[1] + "\n", "[./envoy.yaml:/etc/envoy/envoy.yaml:ro]",
		"depends_on: [limits, program]", "\n  program:", "\n  redis:",
		"\n  limits:\n    build: ../..\n", "[serve, /etc/rls, --redis=redis://redis:6379, ", "[./limits:/etc/rls:ro]",
		// Any client that reaches it can use up the limits of all.
		`ports: ["127.0.0.1:` + http + ":" + http + `"]`,
	} {
		assert.Contains(t, compose, part)
	}
	assert.FileExists(t, deployed+"../../Dockerfile")

	config, _, limit := edgeEnvoy(t)
	listener := config.GetStaticResources().GetListeners()[0].GetAddress().GetSocketAddress().GetPortValue()
	assert.Contains(t, compose, fmt.Sprintf(`ports: ["%d:%d"]`, listener, listener))
	ports := make(map[string]string)
	var clusters []string
	for _, c := range config.GetStaticResources().GetClusters() {
		clusters = append(clusters, c.GetName())
		at := c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
		assert.Contains(t, compose, "\n  "+at.GetAddress()+":")
		ports[at.GetAddress()] = fmt.Sprint(at.GetPortValue())
	}
	assert.Contains(t, clusters, limit.GetRateLimitService().GetGrpcService().GetEnvoyGrpc().GetClusterName())
	assert.Equal(t, grpc, ports["limits"])
}

// TestDeploy_Arguments_Serve: the service runs with the arguments of both files, the second with a password.
func TestDeploy_Arguments_Serve(t *testing.T) {
	redis := startRedis(t)
	here := strings.NewReplacer("/etc/rls", deployed+"limits", "/run/redis/password", written(t, "password", "hidden\n"),
		"redis://redis:6379", redis.url(), "--output=json", "--output=text", "=5s", "=0s", "=10s", "=0s")
	for _, text := range []string{golden.Text(t, deployed+"compose.yaml"), golden.Text(t, deployed+"kubernetes.yaml")} {
		args := regexp.MustCompile(`: \[serve, (.*)\]`).FindStringSubmatch(text)
		s := serve(t, strings.Split(here.Replace(args[1]), ", ")...)
		answer, err := s.ask(t.Context(), "remote_address=198.51.100.7")
		require.NoError(t, err)
		assert.Equal(t, "OVER_LIMIT", answer.GetOverallCode().String(), "a ban of the limits")
		assert.Equal(t, exitDone, s.stop())
		redis.run("CONFIG SET requirepass hidden")
	}
}

// TestEnvoyPage_Examples_AreDeployed: docs/envoy.md shows limits/edge.yaml and parts of envoy.yaml.
func TestEnvoyPage_Examples_AreDeployed(t *testing.T) {
	text := page(t, "envoy.md")
	shown := golden.Code(section(t, text, "Configuration file"), "yaml")
	assert.Equal(t, []string{golden.Text(t, deployed+"limits/edge.yaml")}, shown)
	parts := golden.Code(section(t, text, "Envoy"), "yaml")
	require.NotEmpty(t, parts)
	for _, part := range parts {
		assert.Contains(t, unindented(golden.Text(t, deployed+"envoy.yaml")), unindented(part))
	}
}

func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
