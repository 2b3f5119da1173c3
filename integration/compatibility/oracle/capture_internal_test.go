package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseMonitor(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string
		bad  bool
	}{
		{line: `+1.5 [0 127.0.0.1:5] "ECHO" "a b"`, want: []string{"ECHO", "a b"}},
		{line: `+1.5 [0 [::1]:5] "SET" "k" ""`, want: []string{"SET", "k", ""}},
		{line: `+1.5 [0 unix:/tmp/s] "SET" "\\\"\n\r\t\a\b" "\x00\xff\x5d"`,
			want: []string{"SET", "\\\"\n\r\t\a\b", "\x00\xff]"}},
		{line: `+1.5 [0 127.0.0.1:5] "SET" "] " "x"`, want: []string{"SET", "] ", "x"}},
		{line: `+1.5 [0 lua] "get" "k"`},
		{line: `+1.5 [0 127.0.0.1:5] "SET" "k`, bad: true},
		{line: `+1.5 [0 127.0.0.1:5] "SET" "\x0"`, bad: true},
		{line: `+1.5 [0 127.0.0.1:5] "SET" "\xzz"`, bad: true},
		{line: `+1.5 [0 127.0.0.1:5] "SET" "\q"`, bad: true},
		{line: `+1.5 [0 127.0.0.1:5] SET`, bad: true},
		{line: `-ERR what`, bad: true},
		{line: ``, bad: true},
	} {
		got, err := parseMonitor([]byte(test.line + "\r\n"))
		require.Equal(t, test.bad, err != nil, "%s: %v", test.line, err)
		require.Equal(t, test.want, got, test.line)
	}
}

func TestSplit_InvalidKeyCount_ReturnsError(t *testing.T) {
	script, keys, args, err := (&evaluation{script: "s", rest: []string{"1", "k", "a", "b"}}).split()
	require.NoError(t, err)
	require.Equal(t, "s", script)
	require.Equal(t, []string{"k"}, keys)
	require.Equal(t, []string{"a", "b"}, args)
	for _, rest := range [][]string{nil, {"2", "k"}, {"-1"}, {"x"}} {
		_, _, _, err = (&evaluation{rest: rest}).split()
		require.Error(t, err, "%q", rest)
	}
}
