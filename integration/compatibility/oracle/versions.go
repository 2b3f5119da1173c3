package oracle

import (
	"os"
	"strings"
)

// VersionsToTest returns the releases that the environment variable REDISSON_VERSIONS lists,
// separated by commas: any since 3.16.4. By default these are the newest release and one of each
// older way to write a grant.
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
