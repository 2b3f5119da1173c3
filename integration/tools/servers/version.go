package servers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// Version is which server it is: a release of Redis, or of Valkey, which also reports which
// release of Redis it goes by.
type Version struct {
	server  string
	release release // of Redis
}

type release [3]int

// Feature is something that not all servers have which we claim to work with, and a limiter cannot
// do without in some call.
type Feature struct {
	name  string
	since release
}

// What servers older than 7.0 lack.
var (
	CopyCommand     = Feature{"COPY", release{6, 2, 0}}
	ExpireCondition = Feature{"a condition of PEXPIRE", release{7, 0, 0}}
	ExpireTime      = Feature{"PEXPIRETIME", release{7, 0, 0}}
)

// VersionOf asks the server of a client, any node of a cluster.
func VersionOf(ctx context.Context, client rueidis.Client) (Version, error) {
	info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return Version{}, err
	}
	return parseVersion(info)
}

func (v Version) String() string { return v.server }

// Has reports whether the server has a feature.
func (v Version) Has(f Feature) bool { return slices.Compare(v.release[:], f.since[:]) >= 0 }

// Lacks reports whether the server lacks the feature, and logs it if so: the test then checks
// something else than its subject.
func (v Version) Lacks(t testing.TB, f Feature) bool {
	t.Helper()
	if v.Has(f) {
		return false
	}
	t.Logf("%v lacks %s, which came with Redis %d.%d", v, f.name, f.since[0], f.since[1])
	return true
}

// parseVersion reads INFO server.
func parseVersion(info string) (Version, error) {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	text := fields["redis_version"]
	var v Version
	if _, err := fmt.Sscanf(text, "%d.%d.%d", &v.release[0], &v.release[1], &v.release[2]); err != nil {
		return Version{}, fmt.Errorf("%q is no version of a server: %w", text, err)
	}
	v.server = "Redis " + text
	if valkey := fields["valkey_version"]; valkey != "" {
		v.server = "Valkey " + valkey
	}
	return v, nil
}
