package inspect

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// Grant is one member of a permits set.
type Grant struct {
	At      int64 // Unix milliseconds
	Permits int64 // -1 if the member is too short for a grant
	Known   bool  // the member has the format of a grant
	Member  string
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

func decodeGrants(result rueidis.RedisResult) ([]Grant, error) {
	scores, err := result.AsZScores()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, err
	}
	found := make([]Grant, len(scores))
	for i, z := range scores {
		// The score may be infinite.
		found[i] = Grant{At: int64(min(max(z.Score, -maxPermits), maxPermits)), Member: z.Member}
		found[i].Permits, found[i].Known = inside.PermitsOf(z.Member)
	}
	return found, nil
}
