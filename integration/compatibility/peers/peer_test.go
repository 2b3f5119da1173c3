package peers

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// peer is a limiter on the JVM, in a program of its own.
type peer[Request, Answer any] struct {
	*testing.T
	requests *json.Encoder
	answers  *bufio.Reader
}

// buildPeers compiles the Java programs and answers their classpath.
func buildPeers(t *testing.T) string {
	dir, err := filepath.Abs("../../tools/peers")
	require.NoError(t, err)
	mvn := exec.Command("mvn", "--quiet", "--batch-mode", "compile")
	mvn.Dir = dir
	output, err := mvn.CombinedOutput()
	require.NoError(t, err, "install Maven 3 and a JDK 17 or newer (apt-get install maven openjdk-17-jdk-headless)\n%s", output)
	return filepath.Join(dir, "target", "classes") + string(filepath.ListSeparator) + filepath.Join(dir, "target", "lib", "*")
}

func startPeer[Request, Answer any](t *testing.T, classpath, mainClass string) *peer[Request, Answer] {
	java := exec.Command("java", "-Xmx64m", "-XX:+UseSerialGC", "-cp", classpath, mainClass)
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
	return &peer[Request, Answer]{t, json.NewEncoder(stdin), bufio.NewReader(stdout)}
}

func (p *peer[Request, Answer]) call(q Request) (a Answer) {
	p.Helper()
	require.NoError(p, p.requests.Encode(q))
	line, err := p.answers.ReadBytes('\n')
	require.NoError(p, err)
	require.NoError(p, json.Unmarshal(line, &a))
	return a
}
