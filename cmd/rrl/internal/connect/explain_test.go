package connect

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

func TestExplain_ServerErrors_HaveAdvice(t *testing.T) {
	server := miniredis.RunT(t)
	redis, err := Open(context.Background(), Options{URL: "redis://" + server.Addr(), Timeout: time.Second})
	require.NoError(t, err)
	defer redis.Close()
	for said, want := range map[string]string{
		"READONLY You can't write against a read only replica.":         "is a replica and rejects changes: name its master by --redis",
		"NOPERM this user has no permissions to run the 'scan' command": "denies this user the command (this user has no permissions to run the 'scan' command): grant the right by ACL SETUSER",
		"LOADING Redis is loading the dataset in memory":                "is not ready (LOADING Redis is loading the dataset in memory): retry later",
		"CLUSTERDOWN The cluster is down":                               "is down (CLUSTERDOWN The cluster is down): CLUSTER NODES shows which node is missing",
		"DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface.": "rejects other hosts (protected mode): set a password (requirepass), or protected-mode no",
		"ERR something new": "something new",
	} {
		server.SetError(said)
		err := redis.Explain(redis.Do(context.Background(), redis.B().Get().Key("x").Build()).Error())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, server.Addr())
	}
	err = redis.Explain(&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH})
	require.ErrorContains(t, err, server.Addr()+" cannot be reached")
}
