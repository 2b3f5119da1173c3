package oracle

import (
	"os"
	"strings"
)

// Versions are the releases of Redisson that this package was checked against, oldest first.
// Between neighbours something changed that a limiter shows: its bytes, its calls, its error texts,
// or its library's API.
var Versions = []string{"3.16.8", "3.20.1", "3.21.3", "3.27.2", "3.34.1", "3.38.1", "3.45.1", "3.52.0", "4.0.0",
	"4.3.1", "4.6.1", "4.7.0"}

// VersionsToTest returns the releases that the environment variable REDISSON_VERSIONS lists,
// separated by commas. By default these are the newest release and one of each older way to write a
// grant. Any release since 3.16.4 may be listed, not only Versions.
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
