package servers

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const childEnv = "SERVERS_TEST_CHILD"

// It kills another run of itself, which has a server and cannot clean up.
func TestSingle_ProcessKilled_ServerEnds(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		fmt.Printf("\nPID %d\n", Single(t).PID())
		<-t.Context().Done()
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	// It cannot remove its temporary folders: they go with this test's.
	child.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+t.TempDir())
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())

	pid := 0
	for lines := bufio.NewScanner(output); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "PID "); ok {
			pid, err = strconv.Atoi(text)
			require.NoError(t, err)
		}
	}
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.NotZero(t, pid)
	require.Eventually(t, func() bool { return ended(pid) }, 10*time.Second, 10*time.Millisecond)
}

// ended is also true of a zombie, which an init process that does not reap leaves behind.
func ended(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || strings.Contains(string(status), "\nState:\tZ")
}
