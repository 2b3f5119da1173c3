package rules

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	s, err := Parse("a.yaml", []byte(`
domain: shop
defaults:
  key: ip
rules:
  - name: login
    match: POST /login
    limits: [10/s, 100/m]
    overrides:
      - {key: 192.0.2.9, ban: true}
  - name: users
    match: ["GET /users/{id}", "PUT /users/{id}"]
    key: [path:id, method]
    limits: {policy: token_bucket, rate: 5/s, capacity: 20}
`))
	require.NoError(t, err)
	require.Equal(t, 2, s.Len())
	for _, bad := range []string{"", "a: [", "rules:\n - nam: x\n", "rules:\n - {name: x, limits: 10/x, key: ip}\n - {name: x, limits: 5, key: foo}\n - {name: z, match: '/a/{b', limits: 10/s, key: [path:b, ip]}\n"} {
		_, err = Parse("a.yaml", []byte(bad))
		t.Log(err)
	}
}
