package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
)

// page is a page of the documentation.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/" + name)
	require.NoError(t, err)
	return string(text)
}

// section is a part of a page.
func section(t *testing.T, page, head string) string {
	t.Helper()
	_, text, found := strings.Cut(page, "\n## "+head+"\n")
	require.True(t, found, head)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// Each command of rrl serve that the pages show is run, with files, addresses and a Redis of the test.
func TestPages_ServeCommands_Run(t *testing.T) {
	limits, err := filepath.Abs(deployed + "limits")
	require.NoError(t, err)
	i, socket := newIdentity(t), filepath.Join(t.TempDir(), "rrl.sock")
	replace := strings.NewReplacer("/etc/rls", limits, "redis://redis:6379", "redis://"+miniredis.RunT(t).Addr(),
		"/run/tls/tls.crt", i.cert, "/run/tls/tls.key", i.key, "/run/tls/ca.crt", i.ca, "/run/rls/rrl.sock", socket,
		"--drain 5s", "--drain 1ms", "127.0.0.1:8080", "127.0.0.1:0")
	t.Setenv("REDIS_URL", replace.Replace("redis://redis:6379"))
	commands := 0
	for _, name := range []string{"tool.md", "envoy.md"} {
		for _, block := range strings.Split(page(t, name), "```sh\n")[1:] {
			block, _, _ := strings.Cut(block, "```")
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
	assert.Equal(t, 8, commands)
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
	blocks := strings.Split(section(t, page(t, "envoy.md"), "TLS and unix sockets"), "```yaml\n")[1:]
	require.Len(t, blocks, 2)
	for n, block := range blocks {
		block, _, _ := strings.Cut(block, "```")
		made := new(cluster.Cluster)
		require.NoError(t, protojson.Unmarshal(yamlToJSON(t, []byte(block))[0], made))
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
