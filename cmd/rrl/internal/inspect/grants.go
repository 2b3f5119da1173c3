package inspect

import (
	"context"
	"encoding/binary"
	"strconv"

	"github.com/redis/rueidis"
)

// Grant is one member of a permits set.
type Grant struct {
	At      int64 // Unix milliseconds
	Permits int64 // -1 if the member is not a grant
	Layout  Layout
	Member  string
}

// Layout is the format of a member, named for the releases of Redisson that write it. All formats
// end with the permits, 4 bytes little-endian.
type Layout string

// The layouts, the oldest first. 3.17.0 writes ByteLayout but misreads it, so programs of 3.17.1
// and later can share a limiter.
const (
	FloatLayout Layout = "3.16.3 and before"  // 4 bytes of a random float
	LongLayout  Layout = "3.16.4 to 3.16.8"   // 8 bytes of length, then the random part
	ByteLayout  Layout = "3.17 and later, Go" // 1 byte of length, then the random part
	NoLayout    Layout = ""
)

// Decode parses a member.
func Decode(member string) (permits int64, layout Layout) {
	const count, long = 4, 8
	if len(member) < count {
		return -1, NoLayout
	}
	head, tail := []byte(member[:len(member)-count]), []byte(member[len(member)-count:])
	permits = int64(binary.LittleEndian.Uint32(tail))
	switch {
	case len(head) == count && int(head[0]) != count-1:
		return permits, FloatLayout
	case len(head) > long && binary.LittleEndian.Uint64(head) == uint64(len(head)-long):
		return permits, LongLayout
	case len(head) > 0 && int(head[0]) == len(head)-1:
		return permits, ByteLayout
	}
	return permits, NoLayout
}

// grants reads the members of a set between two ranks, a page at a time, the oldest first. It returns
// false if it stops after the given number of pages. It also stops if see does.
func (r *Reader) grants(ctx context.Context, key string, first, last int64, pages int, see func(Grant)) (all bool,
	err error) {
	for ; first <= last; first += page {
		if pages == 0 {
			return false, nil
		}
		pages--
		stop := min(last, first+page-1)
		result := r.Redis.Do(ctx, r.Redis.B().Zrange().Key(key).Min(strconv.FormatInt(first,
			10)).Max(strconv.FormatInt(stop, 10)).Withscores().Build())
		found, err := decodeGrants(result)
		if err != nil {
			return false, r.Redis.Explain(err)
		}
		for _, g := range found {
			see(g)
		}
		if int64(len(found)) < stop-first+1 {
			return true, nil // some were removed meanwhile
		}
	}
	return true, nil
}

// Page reads a page of a set from a rank on, the oldest first.
func (r *Reader) Page(ctx context.Context, key string, first int64) (found []Grant, err error) {
	_, err = r.grants(ctx, key, first, first+page-1, 1, func(g Grant) { found = append(found, g) })
	return found, err
}

func decodeGrants(result rueidis.RedisResult) ([]Grant, error) {
	scores, err := result.AsZScores()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	found := make([]Grant, len(scores))
	for i, z := range scores {
		// The score may be infinite.
		found[i] = Grant{At: int64(min(max(z.Score, -maxPermits), maxPermits)), Member: z.Member}
		found[i].Permits, found[i].Layout = Decode(z.Member)
	}
	return found, nil
}
