package cli

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// To open a pipe without a writer would hold up all connections.
func TestCertificates_PipeInstead_IsNotRead(t *testing.T) {
	f := newCertFixture(t)
	require.NoError(t, os.Remove(f.files.Key))
	require.NoError(t, syscall.Mkfifo(f.files.Key, 0o600))
	f.shows("first")
	f.reload()
	f.shows("first")
	require.Contains(t, f.log.String(), "is a pipe or a device")
}
