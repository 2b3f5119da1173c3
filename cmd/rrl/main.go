// Rrl inspects, exercises, configures and repairs rate limiters in Redis: Redisson's, used by Java or
// Go programs, and those of package limit. It serves limits to Envoy and other proxies.
package main

import (
	"os"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
