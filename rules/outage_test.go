package rules

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestMiddleware_ReloadInOutage_ShareStays: permits that were granted without Redis still count
// after a reload, whatever it changes.
func TestMiddleware_ReloadInOutage_ShareStays(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		rule := func(limits, fields string) string {
			return one("key: all, policy: fixed_window, limits: [" + limits + "], on_failure: {local: 0.5}" + fields)
		}
		set := parsed(t, rule("10/h", ""))
		handler := set.Middleware(client)(&ok{})
		f.Redis.SetError("LOADING")
		granted := 0
		take := func() {
			for status(handler, "GET /") == good {
				granted++
			}
		}
		for _, fields := range []string{"", ", wait: 1ms", ", cost: 1", ""} {
			for _, file := range []string{"", "deadline: 1s\n", "max_waiting: 7\n", "on_invalid: on_failure\n"} {
				reload(f, set, file+rule("10/h", fields))
				take()
			}
		}
		assert.Equal(t, 3, granted, "of 5, which is half of the limit, 3 can be had at once")
		for _, limits := range []string{"10/h, 20/m", "20/m, 10/h", "10/h"} { // another limit beside it
			reload(f, set, rule(limits, ""))
			take()
		}
		assert.Equal(t, 3, granted)
		time.Sleep(time.Hour)
		take()
		assert.Equal(t, 6, granted)
	})
}

// TestMiddleware_ReloadInOutage_EndIsReported: each outage that is reported ends, whenever a reload
// comes, at the latest with a request that needs Redis.
func TestMiddleware_ReloadInOutage_EndIsReported(t *testing.T) {
	one := "rules: [{name: a, key: all, limits: 9/h, on_failure: open"
	for name, c := range map[string]struct {
		before, after string
	}{
		"another mode":     {one + "}]", strings.Replace(one, "open", "{local: 0.5}", 1) + "}]"},
		"another deadline": {one + "}]", "deadline: 1s\n" + one + "}]"},
		"no rule":          {one + "}]", "rules: []"},
		"a ban":            {one + "}]", "rules: [{name: a, ban: true}]"},
	} {
		for _, length := range []time.Duration{0, 10 * time.Minute} {
			t.Run(fmt.Sprint(name, length), func(t *testing.T) {
				guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
					var heard []bool // what OnRedisChange reports
					set := parsed(t, c.before)
					handler := set.Middleware(client, httplimit.OnRedisChange(func(_ string, up bool, _ error) {
						heard = append(heard, up)
					}))(&ok{})
					require.Equal(t, good, status(handler, "GET /"))
					time.Sleep(2 * time.Second)
					f.Redis.SetError("LOADING")
					status(handler, "GET /")
					require.Equal(t, []bool{false}, heard)
					reload(f, set, c.after)
					status(handler, "GET /")
					time.Sleep(length)
					f.Redis.SetError("")
					time.Sleep(2 * time.Second)
					status(handler, "GET /")
					time.Sleep(2 * time.Second)
					reload(f, set, c.before)
					status(handler, "GET /")
					time.Sleep(2 * time.Second)
					synctest.Wait()
					assert.Equal(t, []bool{false, true}, heard)
				})
			})
		}
	}
}
