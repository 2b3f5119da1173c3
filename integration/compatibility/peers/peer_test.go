// Package peers compares the policies of package limit with the libraries that define them, on
// settable clocks.
package peers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/env"
)

// steps is the number of compared calls of each policy: POLICY_STEPS, by default 1,000.
var steps = int(env.Number("POLICY_STEPS", 1000))

// peer is a Java program with one limiter. The call "create" replaces the limiter.
type peer[Request, Answer any] struct {
	requests *json.Encoder
	answers  *bufio.Reader
}

// buildPeers compiles the Java programs, once, and returns their classpath.
var buildPeers = sync.OnceValues(func() (classpath string, err error) {
	dir, err := filepath.Abs("../../tools/peers")
	if err != nil {
		return "", err
	}
	mvn := exec.Command("mvn", "--quiet", "--batch-mode", "compile")
	mvn.Dir = dir
	if output, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install Maven 3 and a JDK 17 or newer (apt-get install maven openjdk-17-jdk-headless): %w: %s", err, output)
	}
	return filepath.Join(dir, "target", "classes") + string(filepath.ListSeparator) + filepath.Join(dir, "target",
		"lib", "*"), nil
})

// startPeer starts a Java program, which ends with the test.
func startPeer[Request, Answer any](t *testing.T, mainClass string) *peer[Request, Answer] {
	classpath, err := buildPeers()
	require.NoError(t, err)
	java := exec.Command("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, mainClass)
	java.Stderr = os.Stderr
	stdin, err := java.StdinPipe()
	require.NoError(t, err)
	stdout, err := java.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, java.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		assert.NoError(t, java.Wait())
	})
	return &peer[Request, Answer]{json.NewEncoder(stdin), bufio.NewReader(stdout)}
}

func (p *peer[Request, Answer]) call(t *testing.T, q Request) (a Answer) {
	t.Helper()
	require.NoError(t, p.requests.Encode(q))
	line, err := p.answers.ReadBytes('\n')
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(line, &a))
	return a
}
