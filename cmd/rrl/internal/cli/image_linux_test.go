package cli

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestImage_Binary_NeedsNoOtherFile: it serves as an unprivileged user without an interpreter, libraries
// and time zones.
func TestImage_Binary_NeedsNoOtherFile(t *testing.T) {
	const tree = "../../../.."
	out, err := exec.Command("make", "-C", tree, "bin/image").CombinedOutput()
	require.NoError(t, err, "%s", out)
	image := filepath.Join(tree, "bin/image")

	authorities := read(t, filepath.Join(image, "etc/ssl/certs/ca-certificates.crt"))
	assert.True(t, x509.NewCertPool().AppendCertsFromPEM([]byte(authorities)))

	redis := startRedis(t)
	root := t.TempDir()
	require.NoError(t, os.CopyFS(root, os.DirFS(image)))
	require.NoError(t, os.Mkdir(filepath.Join(root, "etc/rls"), 0o755))
	const calendar = "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1, policy: calendar, in: Europe/Berlin}}\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/rls/edge.yaml"), []byte(calendar), 0o644))
	cmd := exec.Command("/rrl", "serve", "/etc/rls", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--deadline", "10s")
	cmd.Dir, cmd.Env = "/", []string{"REDIS_URL=" + redis.url()}
	cmd.SysProcAttr = inside(root)
	p := startCommand(t, cmd)
	p.await()
	answer, err := p.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	assert.EqualValues(t, 1, answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit())

	p.signal(syscall.SIGTERM)
	assert.Equal(t, exitDone, p.code())
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
