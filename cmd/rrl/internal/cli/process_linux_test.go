package cli

import (
	"crypto/x509"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestMain is rrl itself where a test says so, as a process of its own that gets signals.
func TestMain(m *testing.M) {
	if os.Getenv("RRL_TEST_PROCESS") != "" {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// process is rrl as a process.
type process struct {
	*serving
	cmd   *exec.Cmd
	ended chan int
}

// startProcess starts rrl; with nohup, SIGHUP is ignored from the start.
func startProcess(t *testing.T, nohup bool, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	if nohup {
		cmd = exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`, self}, args...)...)
	}
	cmd.Env = append(os.Environ(), "RRL_TEST_PROCESS=1")
	// A process inherits that SIGHUP is ignored, as after nohup, but not that it is handled.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	return startCommand(t, cmd)
}

// startCommand starts a command that is rrl. It ends with the test at the latest.
func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{serving: &serving{TB: t, log: new(redistest.Log)}, cmd: cmd, ended: make(chan int, 1)}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		p.ended <- cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	return p
}

func (p *process) signal(signals ...os.Signal) {
	p.Helper()
	for _, sent := range signals {
		require.NoError(p, p.cmd.Process.Signal(sent))
	}
}

// code waits for the end, and returns the exit code.
func (p *process) code() int {
	p.Helper()
	select {
	case code := <-p.ended:
		return code
	case <-time.After(30 * time.Second):
		p.Fatal("it does not end")
	}
	return -1
}

// SIGHUP reads the files of rrl serve again, also while it drains, and ends other commands as Ctrl-C does. A
// command that ignores SIGHUP from the start, as after nohup, goes on to ignore it.
func TestMain_Hangup_ReloadsOrEnds(t *testing.T) {
	redis := "redis://" + miniredis.RunT(t).Addr()
	file, rules := written(t, "edge.yaml", edge), written(t, "rules.yaml", webRules)
	serve := []string{"serve", file, "--rules", rules, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--drain", "1h",
		"--redis", redis}
	served, ignored := startProcess(t, false, serve...), startProcess(t, true, serve...)
	served.await()
	ignored.await()
	watch := []string{"watch", "x", "--every", "50ms", "--redis", redis}
	watches, ignores := startProcess(t, false, watch...), startProcess(t, true, watch...)
	watches.says("no limiter")
	ignores.log.Await(t, "no limiter")
	for _, p := range []*process{served, ignored, watches, ignores} {
		p.signal(syscall.SIGHUP)
	}
	assert.Equal(t, exitDone, watches.code())
	reloaded := func(times int) { // of both files, in any order; they were read at the start
		require.Eventually(t, func() bool {
			log := served.log.String()
			return strings.Count(log, "rls: reload") == times &&
				strings.Count(log, "rls: configuration in force") == times+1 &&
				strings.Count(log, "rrl: rules in force") == times+1
		}, 20*time.Second, 10*time.Millisecond)
	}
	reloaded(1)
	ignores.log.Await(t, "no limiter")
	ignores.log.Await(t, "no limiter")
	ignores.signal(syscall.SIGTERM)
	assert.Equal(t, exitDone, ignores.code())
	assert.NotContains(t, served.log.String(), "rrl: ending")

	for _, p := range []*process{served, ignored} {
		p.signal(syscall.SIGTERM)
		p.says("rrl: ending")
		p.signal(syscall.SIGHUP)
	}
	reloaded(2)
	code, _ := served.get("/rlconfig")
	assert.Equal(t, 200, code, "it still drains")
	assert.NotContains(t, ignored.log.String(), "rls: reload")
}

// TestImage_Binary_NeedsNoOtherFile: it serves as an unprivileged user without an interpreter, libraries
// and time zones.
func TestImage_Binary_NeedsNoOtherFile(t *testing.T) {
	const tree = "../../../.."
	out, err := exec.Command("make", "-C", tree, "bin/image").CombinedOutput()
	require.NoError(t, err, "%s", out)
	image := filepath.Join(tree, "bin/image")

	authorities := golden.Text(t, filepath.Join(image, "etc/ssl/certs/ca-certificates.crt"))
	assert.True(t, x509.NewCertPool().AppendCertsFromPEM([]byte(authorities)))

	redis := startRedis(t)
	root := t.TempDir()
	require.NoError(t, os.CopyFS(root, os.DirFS(image)))
	require.NoError(t, os.Mkdir(filepath.Join(root, "etc/rls"), 0o755))
	const calendar = "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1, policy: calendar, in: Europe/Berlin}}\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/rls/edge.yaml"), []byte(calendar), 0o644))
	cmd := exec.Command("/rrl", "serve", "/etc/rls", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--deadline", "10s")
	cmd.Dir, cmd.Env = "/", []string{"REDIS_URL=" + redis.url()}
	cmd.SysProcAttr = rooted(root)
	p := startCommand(t, cmd)
	p.await()
	answer, err := p.ask(t.Context(), "user=ann")
	require.NoError(t, err)
	assert.EqualValues(t, 1, answer.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit())

	p.signal(syscall.SIGTERM)
	assert.Equal(t, exitDone, p.code())
}

// rooted confines a process to a folder, as user 65534 if the test runs as root.
func rooted(root string) *syscall.SysProcAttr {
	if os.Getuid() == 0 {
		return &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return &syscall.SysProcAttr{
		Chroot:      root,
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
}
