package otellimit

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// By default no attribute of an instrument or span has a name.
func TestNames_OnlyListed_AreAttributes(t *testing.T) {
	for _, c := range []struct {
		listed []string
		want   map[string]string
	}{
		{nil, map[string]string{"paid-api": "", "web:10.0.0.7": "", "": ""}},
		{[]string{"paid-api", "web:*"}, map[string]string{
			"paid-api": "paid-api", "paid-api2": "", "paid": "", "web:10.0.0.7": "web:*", "web:": "web:*", "web": "", "": "",
		}},
		{[]string{"web:*", "web:v6:*", "web:10.0.0.7", "*x*"}, map[string]string{
			"web:10.0.0.8": "web:*", "web:v6:::1": "web:v6:*", "web:10.0.0.7": "web:10.0.0.7", "*xy": "*x*",
		}},
	} {
		b := setUp(t, WithLimiterNames(c.listed...))
		o := b.Observer()
		for name, want := range c.want {
			assert.Equal(t, want, b.names.of(name), name)
			o.Decision(context.Background(), waited(granted(name, "redisson"), time.Second, time.Second))
			o.Decision(context.Background(), broken(name, "redisson", fmt.Errorf("%q at 10.0.0.7", name)))
			o.RedisCall(context.Background(), rratelimiter.RedisCallInfo{Name: name, Policy: "redisson", Requests: 1})
			o.Waiting(context.Background(), rratelimiter.WaitingInfo{Name: name, Policy: "redisson", Change: 1})
			b.Middleware("http").Request(context.Background(), limit.Outcome{
				Result: limit.FailedOpen, Limiter: name, Err: fmt.Errorf("%q at 10.0.0.7", name),
			})
		}
		text, err := json.Marshal(b.metrics())
		require.NoError(t, err)
		for _, span := range b.spans.Ended() {
			attributes, err := json.Marshal(span.Attributes())
			require.NoError(t, err)
			text = append(text, attributes...)
		}
		limiter := regexp.MustCompile(`"rratelimiter.limiter","Value":{"Type":"STRING","Value":"([^"]*)"`)
		found := limiter.FindAllSubmatch(text, -1)
		assert.Equal(t, c.listed == nil, found == nil)
		for _, m := range found {
			assert.Contains(t, c.listed, string(m[1]))
		}
		others := string(limiter.ReplaceAll(text, nil))
		assert.NotContains(t, others, "10.0.0")
		assert.NotContains(t, others, "paid")
	}
}
