// Package inside shows package limit what package rratelimiter does not export.
package inside

import "github.com/rratelimiter/rratelimiter/internal/engine"

// Client is a *rratelimiter.Client from within.
type Client struct {
	Engine *engine.Engine

	// Keys makes the names of the keys of a limiter's parts, in the cluster slot of its name, or says what is wrong with the
	// client, the name, or the slots of the keys.
	Keys func(name string, parts ...string) ([]string, error)
}

// Open gives a *rratelimiter.Client from within. Package rratelimiter sets it.
var Open func(client any) (Client, error)
