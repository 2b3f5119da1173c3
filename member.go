package rratelimiter

import (
	"encoding/binary"
	"math/rand/v2"
)

// The format of a member of the permits set, as Redisson packs a grant. A byte has the length of the
// random part. That part follows, then the permits in four bytes, little-endian.
// internal/include/member.lua is the same in Lua.
const (
	randomLength = 16 // of the members that Go makes, and of Redisson's since 3.21
	permitsBytes = 4
)

// prefetchMark is the beginning of the random part of a grant with prefetched permits. The scripts distinguish
// a prefetch by it from a grant of a client whose clock is ahead.
const prefetchMark = "LEAS"

// newPrefetchID returns the first random bytes of the members of a Client's prefetches: the mark, and four
// random bytes.
func newPrefetchID() uint64 {
	return uint64(rand.Uint32())<<32 | uint64(binary.LittleEndian.Uint32([]byte(prefetchMark)))
}

// prefetchIDBytes returns the Client's prefetch ID as members have it.
func (c *Client) prefetchIDBytes() string {
	return string(binary.LittleEndian.AppendUint64(nil, c.prefetchID))
}

// member returns the member of a new grant of n permits. A grant with prefetched permits has the Client's
// prefetch ID in its first random bytes.
func (c *Client) member(n int64, prefetches bool) string {
	first := rand.Uint64()
	if prefetches {
		first = c.prefetchID
	}
	grant := append(make([]byte, 0, 1+randomLength), randomLength)
	grant = binary.LittleEndian.AppendUint64(grant, first)
	return memberOf(string(binary.LittleEndian.AppendUint64(grant, rand.Uint64())), n)
}

// memberOf returns the member of a grant with n permits.
func memberOf(grant string, n int64) string {
	return grant + string(binary.LittleEndian.AppendUint32(nil, uint32(n)))
}

// grantOf returns what two members of one grant share, if their permits differ.
func grantOf(member string) string { return member[:len(member)-permitsBytes] }
