package servers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCluster_MasterKilled_FailsOver(t *testing.T) {
	c := NewCluster(t)
	require.Len(t, c.Addrs(), clusterNodes)
	slot, err := c.SlotOf(t.Context(), "{x}:value")
	require.NoError(t, err)
	require.Equal(t, 16287, slot)

	master, err := c.MasterOf(t.Context(), slot)
	require.NoError(t, err)
	require.Equal(t, "OK", text(t, master, "SET", "{x}:value", "1"))
	replica, err := c.ReplicaOf(t.Context(), slot)
	require.NoError(t, err)
	require.NotSame(t, master, replica)
	_, err = replica.Do(t.Context(), "SET", "{x}:value", "1")
	require.ErrorContains(t, err, "MOVED")

	_, err = c.MasterOf(t.Context(), Slots)
	require.Error(t, err)

	// A failover, and the old master's return.
	require.NoError(t, master.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		now, err := c.MasterOf(ctx, slot)
		if err == nil {
			require.Same(t, replica, now)
			break
		}
		require.True(t, pause(ctx), "no failover: %v", err)
	}
	_, err = c.ReplicaOf(ctx, slot)
	require.Error(t, err)
	require.NoError(t, master.Restart())
	require.NoError(t, c.AwaitHealthy(ctx))
	now, err := c.ReplicaOf(ctx, slot)
	require.NoError(t, err)
	require.Same(t, master, now)
}

func TestOpenCluster_Close_EndsEveryNode(t *testing.T) {
	c, err := OpenCluster(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	for _, node := range c.Nodes() {
		require.False(t, node.Running())
	}
	require.NoDirExists(t, c.ownsDir)
}

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
