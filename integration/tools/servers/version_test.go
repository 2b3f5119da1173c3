package servers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseVersion(t *testing.T) {
	for _, test := range []struct {
		info, version                 string
		copies, conditions, expireAts bool
	}{
		{"# Server\r\nredis_version:6.0.16\r\nredis_mode:standalone\r\n", "Redis 6.0.16", false, false, false},
		{"# Server\r\nredis_version:6.2.0\r\n", "Redis 6.2.0", true, false, false},
		{"# Server\r\nredis_version:7.0.15\r\n", "Redis 7.0.15", true, true, true},
		{"# Server\r\nredis_version:10.0.1\r\n", "Redis 10.0.1", true, true, true},
		{"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n", "Valkey 9.1.2", true,
			true, true},
	} {
		v, err := parseVersion(test.info)
		require.NoError(t, err)
		require.Equal(t, test.version, v.String())
		require.Equal(t, test.copies, v.Has(CopyCommand), v)
		require.Equal(t, test.conditions, v.Has(ExpireCondition), v)
		require.Equal(t, test.expireAts, v.Has(ExpireTime), v)
	}
	_, err := parseVersion("# Server\r\nredis_mode:standalone\r\n")
	require.Error(t, err)
}

// The server rejects exactly the commands of features that Lacks reports.
func TestLacks_RunningServer_RejectsTheCommand(t *testing.T) {
	s := Single(t)
	v := VersionOf(t, s.Client(t))
	for f, command := range map[Feature][]string{
		CopyCommand:     {"COPY", "from", "to"},
		ExpireCondition: {"PEXPIRE", "key", "1000", "NX"},
		ExpireTime:      {"PEXPIRETIME", "key"},
	} {
		_, err := s.Do(t.Context(), command...)
		require.Equal(t, v.Lacks(t, f), err != nil, "%v, %v: %v", v, command, err)
	}
}
