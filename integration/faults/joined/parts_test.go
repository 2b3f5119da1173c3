package joined_test

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// held returns the taken permits of each part of a Join, from its keys.
func (l *load) held(name string, interval time.Duration) map[string]int64 {
	l.Helper()
	ctx, b := context.Background(), l.direct.B
	length := interval.Milliseconds()
	taken := make(map[string]int64)

	text := func(suffix string) string {
		text, err := l.direct.Do(ctx, b().Get().Key(fmt.Sprintf("%s:%s", name, suffix)).Build()).ToString()
		require.NoError(l, err)
		return text
	}
	taken["window"] = l.counts(text(fmt.Sprintf("fixed::window:%d", length)), `^\w+ \d+ (\d+)$`)[0]

	// Less than one permit was refilled since, so the missing permits are between two whole numbers.
	bucket := l.counts(text(fmt.Sprintf(":bucket:%d", length)), `^\w+ \d+ (\d+) (\d+)(?: .*)?$`)
	taken["bucket"] = bucket[0] + min(1, bucket[1])

	log, err := l.direct.Do(ctx,
		b().Lrange().Key(fmt.Sprintf("%s::log:%d", name, length)).Start(0).Stop(-1).Build()).AsStrSlice()
	require.NoError(l, err)
	require.NotEmpty(l, log)
	var entries, total int64
	for _, entry := range log {
		numbers := l.counts(entry, `^\w+ \d+ \d+ (\d+) (\d+)$`)
		entries += numbers[0]
		total = numbers[1]
	}
	require.Equal(l, total, entries, "the log's total and its entries")
	taken["log"] = total

	cells := text(fmt.Sprintf(":sliding:%d:10", length))
	head := l.counts(cells, `^\w+ (\d+) \d+ (\d+)[ \d:]*$`)
	sum := head[1]
	for _, cell := range regexp.MustCompile(`:(\d+)`).FindAllStringSubmatch(cells, -1) {
		sum += number(l, cell[1])
	}
	require.Equal(l, head[0], sum, "the cells' sum and the cells")
	taken["cells"] = head[0]

	quota, err := state.Read(ctx, l.direct, state.KeysOf(name+":quota", "none"))
	require.NoError(l, err)
	require.NotNil(l, quota.Overall.Value)
	for _, grant := range quota.Overall.Grants {
		taken["quota"] += grant.Permits
	}
	require.Equal(l, number(l, quota.Config["rate"])-taken["quota"], number(l, *quota.Overall.Value),
		"the quota's value and its grants")
	return taken
}

// counts reads the numbers of a text.
func (l *load) counts(text, form string) (numbers []int64) {
	l.Helper()
	found := regexp.MustCompile(form).FindStringSubmatch(text)
	require.NotNil(l, found, "%q is not %s", text, form)
	for _, one := range found[1:] {
		numbers = append(numbers, number(l, one))
	}
	return numbers
}
