package servers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// These tests put a shell script in the place of the program that runs containers, so they need no
// Docker. That containers behave as processes do is what the other tests show under make
// test-docker.

func TestContainer_NoProgram_NamesTheTarget(t *testing.T) {
	t.Setenv("REDIS_CONTAINER", "no-such-program")
	_, err := OpenSingle(t.Context())
	require.ErrorContains(t, err, "no-such-program")
	require.ErrorContains(t, err, "make test-docker")
}

func TestContainer_StartFails_ReturnsTheReason(t *testing.T) {
	t.Setenv("REDIS_CONTAINER", script(t, `echo "docker does not answer: start it" >&2; exit 1`))
	_, err := OpenSingle(t.Context())
	require.ErrorContains(t, err, "docker does not answer: start it")
}

func TestContainer_PauseFails_ReturnsTheReason(t *testing.T) {
	c := launch(t, `echo 7; read command; echo "\"cannot $command\""; read command; echo ok; cat`)
	require.Equal(t, 7, c.pid())
	require.EqualError(t, c.pause(), "cannot pause")
	require.NoError(t, c.resume())
	require.NoError(t, c.kill())
	require.NoError(t, c.kill(), "killing it again does nothing")
	require.ErrorIs(t, c.pause(), os.ErrProcessDone)
}

func TestContainer_RemoveFails_ReturnsTheReason(t *testing.T) {
	c := launch(t, `echo 7; cat; echo "cannot remove it" >&2; exit 1`)
	require.ErrorContains(t, c.kill(), "cannot remove it")
}

func TestContainer_EndsAtOnce_HasExited(t *testing.T) {
	c := launch(t, `echo "Address already in use" >&2; echo 0`)
	select {
	case <-c.exited():
	default:
		require.Fail(t, "a server without a process id counts as running")
	}
	require.Contains(t, c.log(), "Address already in use")
}

func launch(t *testing.T, lines string) instance {
	t.Helper()
	c, err := containers(script(t, lines)).launch(t.TempDir(), 1, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.kill() })
	return c
}

func script(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "container")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700))
	return path
}
