package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // named in envoy.yaml
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // named in envoy.yaml
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
)

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
	require.NoError(t, protojson.Unmarshal(yamlToJSON(t, read(t, deployed+"envoy.yaml"))[0], config))
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

	kubernetes := read(t, deployed+"kubernetes.yaml")
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
	assert.Contains(t, unindented(kubernetes), "edge.yaml: |\n"+unindented(read(t, deployed+"limits/edge.yaml")))

	compose := read(t, deployed+"compose.yaml")
	// The Envoy that integration/compatibility/proxies runs with this file.
	fetch := read(t, "../../../../integration/compatibility/proxies/envoy.sh")
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
	for _, text := range []string{read(t, deployed+"compose.yaml"), read(t, deployed+"kubernetes.yaml")} {
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
	assert.Equal(t, []string{read(t, deployed+"limits/edge.yaml")}, blocks(section(t, text, "Configuration file"), "yaml"))
	parts := blocks(section(t, text, "Envoy"), "yaml")
	require.NotEmpty(t, parts)
	for _, part := range parts {
		assert.Contains(t, unindented(read(t, deployed+"envoy.yaml")), unindented(part))
	}
}

func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
