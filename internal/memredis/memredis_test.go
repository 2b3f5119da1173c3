package memredis

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// rueidis sends the pipeline of a lone caller before it reads a reply.
func TestConnect_LongPipelineOfALoneCaller_IsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		client, err := Connect(redis)
		require.NoError(t, err)
		defer redis.Close()
		defer client.Close()
		commands := make(rueidis.Commands, 32)
		for i := range commands {
			commands[i] = client.B().Echo().Message(strings.Repeat("x", 10_000)).Build()
		}
		for _, result := range client.DoMulti(context.Background(), commands...) {
			require.NoError(t, result.Error())
		}
	})
}
