package servers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseClusterNode(t *testing.T) {
	for _, test := range []struct {
		line string
		want clusterNode
		bad  bool
	}{
		{
			line: "a1 127.0.0.1:7000@17000,host myself,master - 0 0 7 connected 0-5 7 [93->-b2] [77-<-c3]\n",
			want: clusterNode{id: "a1", flags: []string{"myself", "master"}, master: "-", epoch: 7,
				slots: [][2]int{{0, 5}, {7, 7}}},
		},
		{
			line: "b2 127.0.0.1:7001@17001 slave,fail? a1 1 2 3 disconnected\n",
			want: clusterNode{id: "b2", flags: []string{"slave", "fail?"}, master: "a1", epoch: 3},
		},
		{line: "a1 127.0.0.1:7000@17000 master - 0 0 7\n", bad: true},
		{line: "a1 127.0.0.1:7000@17000 master - 0 0 x connected\n", bad: true},
		{line: "a1 127.0.0.1:7000@17000 master - 0 0 7 connected 1-x\n", bad: true},
	} {
		got, err := parseClusterNode(test.line)
		require.Equal(t, test.bad, err != nil, "%q: %v", test.line, err)
		require.Equal(t, test.want, got, test.line)
	}
	require.True(t, clusterNode{slots: [][2]int{{0, 5}, {7, 7}}}.serves(7))
	require.False(t, clusterNode{slots: [][2]int{{0, 5}, {7, 7}}}.serves(6))
}
