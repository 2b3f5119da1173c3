package door

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Keyed is the limiters of the keys of a door, each of its own with the same policies. Of these the door knows K.
type Keyed[K any] struct {
	client   *rratelimiter.Client
	name     string
	policies []limit.Policy
	known    K
	seed     maphash.Seed

	// Limiters that were used lately: to open one takes longer than all else that a refusal from memory does. There is a place
	// for each of some hundred hashes of keys, however many keys there are.
	places [512]atomic.Pointer[One[K]]
}

// One is the limiter of one key, and what is known of its policies.
type One[K any] struct {
	*limit.Limiter
	Known K

	key string
}

// NewKeyed says what is wrong where no call could work. It asks nothing of Redis.
func NewKeyed[K any](client *rratelimiter.Client, name string, policies []limit.Policy, known K) (*Keyed[K], error) {
	if name == "" {
		return nil, errors.New("a name is empty")
	}
	// A call whose context has ended asks nothing of Redis, and says what is wrong before it says that.
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := limit.New(client, Name(name, "key"), policies...).Take(ended, 1); !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("limiters of the name %q: %w", name, err)
	}
	return &Keyed[K]{client: client, name: name, policies: policies, known: known, seed: maphash.MakeSeed()}, nil
}

// longestKept is the longest key that is kept.
const longestKept = 128

// Limiter is the limiter of a key. No two requests share one by accident: an empty key is an error.
func (k *Keyed[K]) Limiter(key string) (*One[K], error) {
	if key == "" {
		return nil, errors.New("a key is empty")
	}
	place := &k.places[maphash.String(k.seed, key)%uint64(len(k.places))]
	if l := place.Load(); l != nil && l.key == key {
		return l, nil
	}
	l := &One[K]{limit.New(k.client, Name(k.name, key), k.policies...), k.known, key}
	if len(key) <= longestKept {
		place.Store(l)
	}
	return l, nil
}

// IsNil says whether there is no limiter, also where a nil pointer says so.
func IsNil(l Limiter) bool {
	if l == nil {
		return true
	}
	v := reflect.ValueOf(l)
	switch v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return v.IsNil()
	}
	return false
}
