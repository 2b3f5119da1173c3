package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	upstream "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/google/uuid"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/golden"
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
		_, err := api.TryAcquire(ctx, n)
		require.NoError(m, err)
		m.pass(10 * time.Second)
	}
	for i, id := range []string{client1, client2} {
		l := rratelimiter.New(m.Client, rratelimiter.WithClock(m.now),
			rratelimiter.WithClientID(uuid.MustParse(id))).Limiter("exports")
		_, err := l.TrySetRate(ctx, rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 20, Interval: 5 * time.Second,
			KeepAlive: time.Hour})
		require.NoError(m, err)
		_, err = l.TryAcquire(ctx, int64(5+13*i))
		require.NoError(m, err)
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
	rules := read(t, "../../../../rules/testdata/rules.yaml")
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

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// page is a page of the documentation.
func page(t *testing.T, name string) string { return read(t, "../../../../docs/"+name) }

// section is a part of a page.
func section(t *testing.T, page, head string) string {
	t.Helper()
	_, text, found := strings.Cut(page, "\n## "+head+"\n")
	require.True(t, found, head)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// blocks is the code of a language in a text.
func blocks(text, language string) (all []string) {
	for _, block := range strings.Split(text, "```"+language+"\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		all = append(all, block)
	}
	return all
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
		for _, block := range blocks(page(t, name), "sh") {
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
	shown := blocks(section(t, page(t, "envoy.md"), "TLS and unix sockets"), "yaml")
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
