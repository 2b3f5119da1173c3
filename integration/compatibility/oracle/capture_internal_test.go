package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplit_InvalidKeyCount_ReturnsError(t *testing.T) {
	script, keys, args, err := (&capture{last: []string{"s", "1", "k", "a", "b"}}).split()
	require.NoError(t, err)
	require.Equal(t, "s", script)
	require.Equal(t, []string{"k"}, keys)
	require.Equal(t, []string{"a", "b"}, args)
	for _, last := range [][]string{nil, {"s"}, {"s", "2", "k"}, {"s", "-1"}, {"s", "x"}} {
		_, _, _, err = (&capture{last: last}).split()
		require.Error(t, err, "%q", last)
	}
}
