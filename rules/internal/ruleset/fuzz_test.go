package ruleset

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// FuzzParse: no file makes Parse panic, and the limiters of a valid file can be called.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"rules: []", large(2), one("key: ip, limits: 1/s"),
		`{"rules": [{"name": "a", "ban": true, "match": {"grpc": "/a/b"}}]}`,
		"address: {trusted: [10.0.0.0/8], header: Forwarded, ipv6_bits: 48}\n" +
			"defaults: {key: ip, policy: smooth, skip: {paths: [/a/, '/{$}'], ranges: ['::1'], methods: GET}}\n" +
			"match: all\nrules: [{name: a, limits: [5/s, {redisson: q, rate: 2/d}], wait: 1s, on_failure: {local: 0.5}}]",
		"rules: [{name: a, match: ['GET a.b/{x}/{y...}', {headers: {A: '*'}, ranges: 10.0.0.0/8}], " +
			"key: [path:y, constant:z], limits: {permits: 3, per: 1m, policy: calendar}, overrides: [{key: [a, z], unlimited: true}]}]",
	} {
		f.Add(text, "/a/b?c", "f.yaml")
		f.Add(text, "/%2e/%2F//x", "f.json")
	}
	f.Fuzz(func(t *testing.T, text, target, name string) {
		file, problems := Parse(name, []byte(text))
		if file == nil {
			assert.NotEmpty(t, problems[0].Error())
			return
		}
		r := request("GET /")
		r.URL.Path = target
		r.URL.RawPath = target
		for _, e := range file.acquires(newOpener(offline), file.HTTP(r)) {
			if e.err == nil {
				_, _ = e.limiter.Take(ended, 1)
			}
		}
	})
}
