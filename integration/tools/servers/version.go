package servers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// Version is a release of Redis or of Valkey. Valkey also reports the release of Redis that it is
// compatible with.
type Version struct {
	server  string
	release release // of Redis
}

type release [3]int

// Feature is a feature that some call of a limiter needs and some supported servers lack.
type Feature struct {
	name  string
	since release
}

// What servers older than 7.0 lack.
var (
	CopyCommand     = Feature{"COPY", release{6, 2, 0}}
	PauseWrites     = Feature{"CLIENT PAUSE WRITE", release{6, 2, 0}}
	ExpireCondition = Feature{"a condition of PEXPIRE", release{7, 0, 0}}
	ExpireTime      = Feature{"PEXPIRETIME", release{7, 0, 0}}
)

// VersionOf returns the version of the server of a client, or of any node of a cluster.
func VersionOf(t testing.TB, client rueidis.Client) Version {
	t.Helper()
	info, err := client.Do(t.Context(), client.B().Info().Section("server").Build()).ToString()
	require.NoError(t, err)
	version, err := parseVersion(info)
	require.NoError(t, err)
	return version
}

func (v Version) String() string { return v.server }

// Has reports whether the server has a feature.
func (v Version) Has(f Feature) bool { return slices.Compare(v.release[:], f.since[:]) >= 0 }

// Lacks reports whether the server lacks the feature, and logs it if so. The test then checks the
// error of the call.
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
