package oracle

import (
	"os"
	"strings"
)

// VersionsToTest returns the releases in the environment variable REDISSON_VERSIONS, separated by
// commas. Older releases than 3.17.1 do not work. By default it returns the
// newest release and one of each older way to write a grant.
func VersionsToTest() []string {
	var chosen []string
	for version := range strings.SplitSeq(os.Getenv("REDISSON_VERSIONS"), ",") {
		if version = strings.TrimSpace(version); version != "" {
			chosen = append(chosen, version)
		}
	}
	if len(chosen) == 0 {
		return []string{"4.7.0", "3.38.1", "3.20.1"}
	}
	return chosen
}
