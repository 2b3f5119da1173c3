package redisx

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSlot_Keys_AreThoseOfRedisCluster(t *testing.T) {
	// The replies of CLUSTER KEYSLOT of a real server.
	for key, want := range map[string]uint16{
		"": 0, "123456789": 12739, "foo": 12182, "bar": 5061, "{foo}": 12182, "x{foo}y{bar}": 12182,
		"}{foo}": 12182, "{}foo": 9500, "foo{": 7673, "{foo": 13308, "{{foo}}": 13308,
	} {
		assert.Equal(t, want, Slot(key), key)
	}
}

// tag is the hash tag of a key by the Redis Cluster specification.
var tag = regexp.MustCompile(`(?s)^[^{]*\{([^}]+)\}`)

// slotBySpecification is CRC-16/XMODEM bit by bit, with the tag by a regular expression.
func slotBySpecification(key string) int {
	if found := tag.FindStringSubmatch(key); found != nil {
		key = found[1]
	}
	remainder := 0
	for _, b := range append([]byte(key), 0, 0) {
		for bit := 7; bit >= 0; bit-- {
			remainder = remainder<<1 | int(b>>bit)&1
			if remainder > 0xffff {
				remainder ^= 0x11021
			}
		}
	}
	return remainder % 16384
}

func FuzzSlot(f *testing.F) {
	for _, key := range []string{"", "{tenant7}:second", "a}b", "a{b", "{}a", "a{}{b}", "{{a}}", "\xff{\xfe}", "日本{語}"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) { require.Equal(t, slotBySpecification(key), int(Slot(key))) })
}
