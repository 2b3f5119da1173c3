package cli

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rratelimiter/rratelimiter/rls"
)

// edgeEnvoy is envoy.yaml, read as Envoy does: a field that it does not know, or of another type, is an error.
func edgeEnvoy(t *testing.T) (*bootstrap.Bootstrap, *manager.HttpConnectionManager, *filter.RateLimit) {
	t.Helper()
	config := new(bootstrap.Bootstrap)
	require.NoError(t, protojson.Unmarshal(asJSON(t, "envoy.yaml")[0], config))
	require.NoError(t, config.ValidateAll())
	http := new(manager.HttpConnectionManager)
	first := config.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0]
	require.NoError(t, first.GetTypedConfig().UnmarshalTo(http))
	limit := new(filter.RateLimit)
	require.NoError(t, http.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(limit))
	return config, http, limit
}

// compose is compose.yaml as far as it has to agree with others.
type compose struct {
	Services map[string]struct {
		Image, Build   string
		Command        []string
		Volumes, Ports []string
		DependsOn      []string `json:"depends_on"`
	}
}

// TestDeploy_EnvoyDescriptors_HaveLimits: each descriptor of envoy.yaml has a limit in its domain.
func TestDeploy_EnvoyDescriptors_HaveLimits(t *testing.T) {
	_, http, limit := edgeEnvoy(t)
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

// Each path of a program has one reading, so that /x/../login and //login are limited as /login.
func TestEnvoyYAML_Paths_HaveOneReading(t *testing.T) {
	_, http, _ := edgeEnvoy(t)
	assert.True(t, http.GetNormalizePath().GetValue())
	assert.True(t, http.GetMergeSlashes())
	assert.Equal(t, manager.HttpConnectionManager_REJECT_REQUEST, http.GetPathWithEscapedSlashesAction())
}

// TestDeploy_Files_Agree: compose.yaml, envoy.yaml and kubernetes.yaml have the same ports and
// limits.
func TestDeploy_Files_Agree(t *testing.T) {
	config, _, limit := edgeEnvoy(t)
	var services compose
	require.NoError(t, json.Unmarshal(asJSON(t, "compose.yaml")[0], &services))

	// Addresses.
	ports := make(map[string]uint32)
	var clusters []string
	for _, c := range config.GetStaticResources().GetClusters() {
		clusters = append(clusters, c.GetName())
		at := c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
		assert.Contains(t, services.Services, at.GetAddress())
		ports[at.GetAddress()] = at.GetPortValue()
	}
	assert.Contains(t, clusters, limit.GetRateLimitService().GetGrpcService().GetEnvoyGrpc().GetClusterName())
	flags := (&app{}).serve().Flags()
	assert.Equal(t, flags.Lookup("grpc").DefValue, portOf(ports["limits"]))
	listener := config.GetStaticResources().GetListeners()[0].GetAddress().GetSocketAddress()
	assert.Equal(t, []string{strings.TrimPrefix(portOf(listener.GetPortValue()), ":") + portOf(listener.GetPortValue())},
		services.Services["envoy"].Ports)
	for _, port := range services.Services["limits"].Ports {
		published, err := netip.ParseAddrPort(port[:strings.LastIndex(port, ":")])
		require.NoError(t, err)
		assert.True(t, published.Addr().IsLoopback(), "any client that reaches it can use up the limits of all")
		assert.True(t, strings.HasSuffix(port, flags.Lookup("http").DefValue))
	}
	for _, s := range services.Services {
		for _, on := range s.DependsOn {
			assert.Contains(t, services.Services, on)
		}
		for _, volume := range s.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			_, err := os.Stat(filepath.Join(deployed, from))
			assert.NoError(t, err)
		}
	}

	// Files.
	limits := services.Services["limits"]
	assert.FileExists(t, filepath.Join(deployed, limits.Build, "Dockerfile"))
	assert.Equal(t, "serve", limits.Command[0])
	assert.Equal(t, []string{"./limits:" + limits.Command[1] + ":ro"}, limits.Volumes)
	assert.True(t, slices.ContainsFunc(limits.Command,
		func(arg string) bool { return strings.HasPrefix(arg, "--redis=redis://redis:") }))
	assert.Contains(t, services.Services, "redis")
	require.NoError(t, flags.Parse(slices.DeleteFunc(slices.Clone(limits.Command[2:]),
		func(arg string) bool { return strings.HasPrefix(arg, "--redis") })))

	entries, err := os.ReadDir(deployed + "limits")
	require.NoError(t, err)
	files := make(map[string]string)
	for _, entry := range entries {
		files[entry.Name()] = read(t, deployed+"limits/"+entry.Name())
	}
	assert.Equal(t, files, readManifests(t).config)
	rules, err := rls.Load(deployed+"limits", false)
	require.NoError(t, err)
	assert.Equal(t, []string{limit.GetDomain()}, rules.Domains())

	// The Envoy that integration/compatibility/proxies runs with this file.
	fetch := read(t, "../../../../integration/compatibility/proxies/envoy.sh")
	version := regexp.MustCompile(`(?m)^version=(\S+)`).FindStringSubmatch(fetch)
	assert.Equal(t, "envoyproxy/envoy:v"+version[1], services.Services["envoy"].Image)
}

func portOf(port uint32) string { return ":" + strconv.FormatUint(uint64(port), 10) }

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
