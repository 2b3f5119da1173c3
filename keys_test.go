package rratelimiter

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

func TestKeysFollowRedisson(t *testing.T) {
	const id = "b0a0c5a4-8a0a-4c9c-9a39-7a7d3f1b1d11"
	for name, want := range map[string]keys{
		"api": {"api", "{api}:value", "{api}:permits", "{api}:value:" + id, "{api}:permits:" + id},
		"{tenant7}:minute": {"{tenant7}:minute", "{tenant7}:minute:value", "{tenant7}:minute:permits",
			"{tenant7}:minute:value:" + id, "{tenant7}:minute:permits:" + id},
		"a}b": {"a}b", "{a}b}:value", "{a}b}:permits", "{a}b}:value:" + id, "{a}b}:permits:" + id},
		"a{b": {"a{b", "a{b:value", "a{b:permits", "a{b:value:" + id, "a{b:permits:" + id},
	} {
		assert.Equal(t, want, newKeys(name, id), name)
	}
}

func TestSlotsAreThoseOfRedisCluster(t *testing.T) {
	// What CLUSTER KEYSLOT of a real server answers.
	for key, want := range map[string]uint16{
		"": 0, "123456789": 12739, "foo": 12182, "bar": 5061, "{foo}": 12182, "x{foo}y{bar}": 12182,
		"}{foo}": 12182, "{}foo": 9500, "foo{": 7673, "{foo": 13308, "{{foo}}": 13308,
	} {
		assert.Equal(t, want, redisx.Slot(key), key)
	}
}

func TestKeysShareASlotUnlessTheNameHasAnUnusualBrace(t *testing.T) {
	for name, shared := range map[string]bool{
		"api": true, "{tenant7}:minute": true, "a{tenant7}b{c}": true, "ключ": true,
		"a}b": false, "a{b": false, "{}a": false,
	} {
		k := newKeys(name, "id")
		err := checkSlots(k[:]...)
		if shared {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorIs(t, err, ErrCrossSlot, name)
		}
	}
}
