package joined_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/state"
)

// held reads what every part of a Join holds, from the keys themselves.
func (l *load) held(name string, interval time.Duration) map[string]int64 {
	l.Helper()
	ctx, b := context.Background(), l.direct.B
	length := interval.Milliseconds()
	taken := make(map[string]int64)

	window, err := l.direct.Do(ctx, b().Get().Key(fmt.Sprintf("%s:fixed:window:%d", name, length)).Build()).ToString()
	require.NoError(l, err)
	taken["window"] = l.counts(window, `^\d+ (\d+)$`)[0]

	bucket, err := l.direct.Do(ctx, b().Get().Key(fmt.Sprintf("%s:bucket:%d", name, length)).Build()).ToString()
	require.NoError(l, err)
	if strings.Contains(bucket, " ") {
		// Less than one has come back since: what is missing is between two whole numbers.
		found := l.counts(bucket, `^\d+ (\d+) (\d+)$`)
		taken["bucket"] = found[0] + min(1, found[1])
	} else {
		taken["bucket"] = l.counts(bucket, `^\d+(\d{3})$`)[0]
	}

	log, err := l.direct.Do(ctx, b().Lrange().Key(fmt.Sprintf("%s:log:%d", name, length)).Start(0).Stop(-1).Build()).AsStrSlice()
	require.NoError(l, err)
	require.NotEmpty(l, log)
	head := l.counts(log[0], `^(\d+) \d+ (\d+) \d+$`)
	entries := head[1]
	for _, entry := range log[1:] {
		entries += l.counts(entry, `^\d+ (\d+)$`)[0]
	}
	require.Equal(l, head[0], entries, "the log's sum and its entries")
	taken["log"] = head[0]

	cells, err := l.direct.Do(ctx, b().Hgetall().Key(fmt.Sprintf("%s:sliding:%d:10", name, length)).Build()).AsStrMap()
	require.NoError(l, err)
	head = l.counts(cells["m"], `^(\d+) \d+ \d+ (\d+)$`)
	delete(cells, "m")
	sum := head[1]
	for _, cell := range cells {
		sum += number(l, cell)
	}
	require.Equal(l, head[0], sum, "the cells' sum and the cells")
	taken["cells"] = head[0]

	quota, err := state.Read(ctx, l.direct, state.KeysOf(name+":quota", "none"))
	require.NoError(l, err)
	require.NotNil(l, quota.Overall.Value)
	for _, grant := range quota.Overall.Grants {
		taken["quota"] += grant.Permits
	}
	require.Equal(l, number(l, quota.Config["rate"])-taken["quota"], number(l, *quota.Overall.Value), "the quota's value and its grants")
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
