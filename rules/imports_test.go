package rules

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Programs that limit HTTP alone do not link grpc-go, which package grpcrules imports.
func TestImports_OfRules_HaveNoGRPC(t *testing.T) {
	imports, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	assert.Contains(t, string(imports), "github.com/rratelimiter/rratelimiter/httplimit\n")
	assert.NotContains(t, string(imports), "google.golang.org/grpc")
	assert.NotContains(t, string(imports), "google.golang.org/protobuf")
}
