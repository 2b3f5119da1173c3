// Rrl sees, tries, changes and repairs the rate limiters of a Redis: those that Java programs have through Redisson and Go programs
// through rratelimiter, and those of package limit. It serves limits to Envoy and other proxies.
package main

import (
	"os"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
