package rratelimiter

import (
	"fmt"

	"github.com/rratelimiter/rratelimiter/internal/inside"
)

func init() {
	inside.Open = func(client any) (inside.Client, error) {
		c, ok := client.(*Client)
		if !ok || c == nil || c.redis == nil {
			return inside.Client{}, fmt.Errorf("%w: give a Client that New made of a rueidis.Client", ErrNoClient)
		}
		return inside.Client{Engine: c.engine, Keys: c.partKeys}, nil
	}
}

// partKeys gives the keys of parts of a limiter of package limit.
func (c *Client) partKeys(name string, parts ...string) ([]string, error) {
	opened, err := c.open(name)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(parts))
	for i, part := range parts {
		all[i] = suffixed(opened[configKey], part)
	}
	return all, nil
}
