package connect

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

// A password with a character that ends a part of a URL makes another URL, of which each part can
// hold a part of the password.
func TestOptions_PasswordThatIsNotEscaped_IsNeverPrinted(t *testing.T) {
	for _, url := range []string{
		"redis://alice:12/hidden@127.0.0.1:1", "redis://alice:12/hidden/more@127.0.0.1:1",
		"redis://alice:12#hidden@127.0.0.1:1",
		"redis://hidden:12#x@127.0.0.1:1", "redis://hidden:12?x@127.0.0.1:1", "redis://hidden:12/x@127.0.0.1:1",
		"redis://alice:hidden/12@127.0.0.1:1", "redis://alice:hidden#12@127.0.0.1:1", "redis://alice:hid%xden@127.0.0.1:1",
		"redis://:12?addr=hidden@127.0.0.1:1", "redis:hidden@127.0.0.1:1", "hidden:12@127.0.0.1:1",
		"http://alice:12/hidden@127.0.0.1",
		"unix://hidden:12/x@/redis.sock", "unix://alice:12/hidden@/redis.sock",
		"//alice:hidden@127.0.0.1:1", "redis://127.0.0.1:1/hidden",
		"redis://127.0.0.1:1?db=hidden", "rediss://127.0.0.1:1?skip_verify=hidden", "redis://127.0.0.1:1?dial_timeout=hidden",
	} {
		_, err := Open(context.Background(), Options{URL: url, Timeout: time.Second})
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hidden", url)
		require.NotContains(t, err.Error(), "hid%xden", url)
		require.Contains(t, err.Error(), "--redis (or REDIS_URL)", url)
	}
}

func TestOptions_PasswordThatIsEscaped_Connects(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("alice", "a/b#c?d@e%")
	for _, url := range []string{
		"redis://alice:a%2Fb%23c%3Fd%40e%25@" + server.Addr(), "redis://alice:a%2Fb%23c%3Fd@e%25@" + server.Addr() + "/1",
	} {
		redis, err := Open(context.Background(), Options{URL: url, Timeout: time.Second})
		require.NoError(t, err, url)
		redis.Close()
	}
}
