package otellimit

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
)

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestPage_Code_RunsInExamples(t *testing.T) {
	guardtest.TestPage(t, "../docs/observability.md", "telemetry", "example_test.go")
}

// The page also lists Prometheus names, results and error types.
func TestPage_Instruments_AreListed(t *testing.T) {
	page, doc := read(t, "../docs/observability.md"), read(t, "doc.go")
	b := setUp(t)
	work(b.Telemetry)
	for name, m := range b.metrics() {
		assert.Contains(t, page, "| `rratelimiter."+name+"` |")
		assert.Contains(t, page, ", "+m.Unit+" |", name)
		_, line, _ := strings.Cut(doc, "//	rratelimiter."+name+" ")
		line, _, _ = strings.Cut(line, "\n")
		assert.Contains(t, line, m.Unit, name)
	}
	_, families := exported(t)
	for family := range families {
		assert.Contains(t, page, "| `"+family+"` |")
	}
	for _, value := range append(append([]string(nil), results[noResult+1:unknown]...), failures[noFailure+1:]...) {
		assert.Contains(t, page, "`"+value+"`")
		assert.Contains(t, doc, value)
	}
}
