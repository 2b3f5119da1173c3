package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// deployed is the folder of what deploys the service.
const deployed = "../../../../examples/deploy/"

// manifests is kubernetes.yaml as far as the service depends on it.
type manifests struct {
	config  map[string]string // the ConfigMap's
	pod     pod
	service struct {
		ClusterIP string
		Selector  map[string]string
		Ports     []struct {
			Name, TargetPort string
			Port             int
		}
	}
}

type pod struct {
	TerminationGracePeriodSeconds int
	SecurityContext               map[string]any
	Containers                    []struct {
		Args  []string
		Env   []struct{ Name, Value string }
		Ports []struct {
			Name          string
			ContainerPort int
		}
		Resources                                   struct{ Limits struct{ Memory string } }
		StartupProbe, ReadinessProbe, LivenessProbe struct{ GRPC struct{ Port int } }
		SecurityContext                             map[string]any
		VolumeMounts                                []struct{ Name, MountPath, SubPath string }
	}
	Volumes []struct {
		Name      string
		ConfigMap struct{ Name string }
		Secret    struct{ SecretName string }
	}
}

func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	var labels map[string]string
	for _, text := range asJSON(t, "kubernetes.yaml") {
		var one struct {
			Kind     string
			Metadata struct{ Name string }
			Data     map[string]string
			Spec     json.RawMessage
		}
		require.NoError(t, json.Unmarshal(text, &one))
		require.Equal(t, "limits", one.Metadata.Name)
		switch one.Kind {
		case "ConfigMap":
			m.config = one.Data
		case "Deployment":
			var spec struct {
				Selector struct{ MatchLabels map[string]string }
				Template struct {
					Metadata struct{ Labels map[string]string }
					Spec     pod
				}
			}
			require.NoError(t, json.Unmarshal(one.Spec, &spec))
			m.pod, labels = spec.Template.Spec, spec.Template.Metadata.Labels
			require.Equal(t, labels, spec.Selector.MatchLabels)
		case "Service":
			require.NoError(t, json.Unmarshal(one.Spec, &m.service))
		default:
			t.Fatalf("a %s is not looked at", one.Kind)
		}
	}
	require.Equal(t, labels, m.service.Selector)
	return m
}

// asJSON is the documents of a YAML file, for what reads the names of fields in either case.
func asJSON(t *testing.T, name string) (documents [][]byte) {
	t.Helper()
	return yamlToJSON(t, read(t, deployed+name))
}

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

// mount writes a volume as kubelet does: each version in a folder of its own, "..data" as a link to the
// newest, and links to its files. A change renames a new link into place and deletes the old folder.
func mount(t *testing.T, volume string, files map[string]string, version int) {
	t.Helper()
	folder := fmt.Sprintf("..2026_11_22_12_00_%02d.%d", version, 1234567890+version)
	require.NoError(t, os.Mkdir(filepath.Join(volume, folder), 0o755))
	before, _ := os.Readlink(filepath.Join(volume, "..data"))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(volume, folder, name), []byte(text), 0o644))
	}
	require.NoError(t, os.Symlink(folder, filepath.Join(volume, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(volume, "..data_tmp"), filepath.Join(volume, "..data")))
	if before != "" {
		require.NoError(t, os.RemoveAll(filepath.Join(volume, before)))
		return
	}
	for name := range files {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)))
	}
}

// TestKubernetes_ConfigMapChange_LosesNoRequest: the service runs as in kubernetes.yaml, with
// volumes as kubelet mounts them and a Redis with the password of the Secret. A change takes effect
// for all requests at one moment.
func TestKubernetes_ConfigMapChange_LosesNoRequest(t *testing.T) {
	m := readManifests(t)
	redis := startRedis(t)
	redis.run("CONFIG SET requirepass hidden")
	require.Len(t, m.pod.Containers, 1)
	c := m.pod.Containers[0]
	args := c.Args[1:]
	require.Equal(t, "serve", c.Args[0])
	var limits string
	for _, v := range c.VolumeMounts {
		require.Empty(t, v.SubPath, "kubelet updates no subPath")
		dir := t.TempDir()
		if v.Name == "limits" {
			limits = dir
			mount(t, dir, m.config, 0)
		} else {
			mount(t, dir, map[string]string{"password": "hidden\n"}, 0)
		}
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], v.MountPath, dir)
		}
	}
	args = append(args, "--redis", redis.url(), "--drain", "0s", "-o", "text") // those of the test
	s := serve(t, args...)

	asked := 0
	seen := func() []uint32 { // by 4 callers at once
		all := make([]uint32, 4)
		var callers sync.WaitGroup
		for i := range all {
			callers.Go(func() {
				answer, err := s.ask(t.Context(), fmt.Sprintf("remote_address=192.0.2.%d", i))
				if assert.NoError(t, err) {
					all[i] = answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()
				}
			})
		}
		callers.Wait()
		asked += len(all)
		return all
	}
	require.Equal(t, []uint32{50, 50, 50, 50}, seen())
	next := make(map[string]string)
	for name, text := range m.config {
		next[name] = strings.Replace(text, "requests_per_unit: 50}", "requests_per_unit: 70}", 1)
		require.NotEqual(t, text, next[name])
	}
	mount(t, limits, next, 1)
	for begin := time.Now(); !slices.Contains(seen(), 70); {
		require.Less(t, time.Since(begin), 20*time.Second)
	}
	for range 25 {
		require.Equal(t, []uint32{70, 70, 70, 70}, seen(), "the old rule is back")
	}
	// It counted as many as asked: nothing was sent twice, or not at all.
	_, text := s.get("/metrics")
	assert.Contains(t, text, fmt.Sprintf(`ratelimit_service_rate_limit_total_hits{domain="edge",key1="remote_address"} %d`, asked))
	assert.Contains(t, text, "\nratelimit_service_config_load_error 0\n")

	banned, err := s.ask(t.Context(), "remote_address=198.51.100.7")
	require.NoError(t, err)
	assert.Equal(t, ratelimit.RateLimitResponse_OVER_LIMIT, banned.GetOverallCode())
	assert.Equal(t, exitDone, s.stop())
}

// TestKubernetes_Manifests_Agree: ports, volumes and times agree with each other and with the tool.
func TestKubernetes_Manifests_Agree(t *testing.T) {
	m := readManifests(t)
	c := m.pod.Containers[0]
	flags := (&app{}).serve().Flags()
	for i, name := range []string{"grpc", "http"} {
		_, port, err := net.SplitHostPort(flags.Lookup(name).DefValue)
		require.NoError(t, err)
		assert.Equal(t, name, c.Ports[i].Name)
		assert.Equal(t, port, fmt.Sprint(c.Ports[i].ContainerPort))
		assert.Equal(t, name, m.service.Ports[i].TargetPort)
		assert.Equal(t, port, fmt.Sprint(m.service.Ports[i].Port))
	}
	for _, probe := range []int{c.StartupProbe.GRPC.Port, c.ReadinessProbe.GRPC.Port, c.LivenessProbe.GRPC.Port} {
		assert.Equal(t, c.Ports[0].ContainerPort, probe)
	}
	assert.Equal(t, "None", m.service.ClusterIP)
	assert.Equal(t, true, m.pod.SecurityContext["runAsNonRoot"])
	assert.Equal(t, true, c.SecurityContext["readOnlyRootFilesystem"])
	assert.Equal(t, false, c.SecurityContext["allowPrivilegeEscalation"])

	require.NoError(t, flags.Parse(slices.DeleteFunc(slices.Clone(c.Args[2:]),
		func(arg string) bool { return !strings.HasPrefix(arg, "--drain") })))
	drain, err := flags.GetDuration("drain")
	require.NoError(t, err)
	assert.Positive(t, drain)
	assert.Greater(t, time.Duration(m.pod.TerminationGracePeriodSeconds)*time.Second, drain+5*time.Second)

	require.Len(t, c.Env, 1)
	assert.Equal(t, "GOMEMLIMIT", c.Env[0].Name)
	mebibytes := func(text, unit string) int {
		n, err := strconv.Atoi(strings.TrimSuffix(text, unit))
		require.NoError(t, err)
		return n
	}
	assert.Less(t, mebibytes(c.Env[0].Value, "MiB"), mebibytes(c.Resources.Limits.Memory, "Mi")*9/10,
		"what is not the heap has room too")

	var volumes []string
	for _, v := range m.pod.Volumes {
		volumes = append(volumes, v.Name)
		assert.Equal(t, v.Name, v.ConfigMap.Name+v.Secret.SecretName)
	}
	for _, v := range c.VolumeMounts {
		assert.Contains(t, volumes, v.Name)
		assert.True(t, slices.ContainsFunc(c.Args, func(arg string) bool { return strings.Contains(arg, v.MountPath) }),
			v.MountPath)
	}
}
