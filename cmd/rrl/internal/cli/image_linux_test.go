package cli

import (
	"crypto/x509"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestImage_Binary_NeedsNoOtherFile: the binary names no interpreter and no library. It serves as
// an unprivileged user without any other file, time zones included.
func TestImage_Binary_NeedsNoOtherFile(t *testing.T) {
	const tree = "../../../.."
	out, err := exec.Command("make", "-C", tree, "bin/image").CombinedOutput()
	require.NoError(t, err, "%s", out)
	image := filepath.Join(tree, "bin/image")

	binary, err := elf.Open(filepath.Join(image, "rrl"))
	require.NoError(t, err)
	defer binary.Close()
	for _, part := range binary.Progs {
		assert.NotEqual(t, elf.PT_INTERP, part.Type)
	}
	libraries, err := binary.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libraries)
	authorities, err := os.ReadFile(filepath.Join(image, "etc/ssl/certs/ca-certificates.crt"))
	require.NoError(t, err)
	assert.True(t, x509.NewCertPool().AppendCertsFromPEM(authorities))

	redis := startRedis(t)
	root := t.TempDir()
	require.NoError(t, os.CopyFS(root, os.DirFS(image)))
	require.NoError(t, os.Mkdir(filepath.Join(root, "etc/rls"), 0o755))
	const calendar = "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1, policy: calendar, in: Europe/Berlin}}\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/rls/edge.yaml"), []byte(calendar), 0o644))
	s := &serving{TB: t, log: new(redistest.Log)}
	cmd := exec.Command("/rrl", "serve", "/etc/rls", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--deadline", "10s")
	cmd.Dir, cmd.Env = "/", []string{"REDIS_URL=" + redis.url()}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = inside(root)
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	s.await()
	health, err := s.health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	assert.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.GetStatus())
	answer, err := s.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	assert.EqualValues(t, 1, answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit())

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		assert.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
}

// inside confines a process to a folder, as user 65534 if the test runs as root.
func inside(root string) *syscall.SysProcAttr {
	if os.Getuid() == 0 {
		return &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return &syscall.SysProcAttr{
		Chroot:      root,
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
}
