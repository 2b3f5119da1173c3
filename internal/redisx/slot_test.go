package redisx

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSlot_Keys_AreThoseOfRedisCluster(t *testing.T) {
	// The replies of CLUSTER KEYSLOT of a real server.
	for key, want := range map[string]uint16{
		"": 0, "123456789": 12739, "foo": 12182, "bar": 5061, "{foo}": 12182, "x{foo}y{bar}": 12182,
		"}{foo}": 12182, "{}foo": 9500, "foo{": 7673, "{foo": 13308, "{{foo}}": 13308,
		"a{}{b}": 15033, "{tenant7}:second": 8943, "日本{語}": 6482, "\xff{\xfe}": 3793,
	} {
		assert.Equal(t, want, Slot(key), key)
	}
}
