package rules

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
)

func TestParse_NewPolicy_LimitsOrIsRefused(t *testing.T) {
	policytest.Register(t)
	rules := parsed(t, one("key: ip, limits: {rate: 3/h, policy: novel}"))
	handler := rules.Middleware(connected(t))(new(ok))
	var codes []int
	for range 4 {
		codes = append(codes, status(handler, "GET /"))
	}
	assert.Equal(t, []int{200, 200, 200, 429}, codes)
	_, err := Parse("rules.yaml", []byte(one("key: ip, limits: {rate: 3/h, policy: incomplete}")))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "incomplete describes no local share")
}
