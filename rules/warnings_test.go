package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWarnings_BanOfRanges_NeedsARuleBehindIt that decides requests of unknown addresses.
func TestWarnings_BanOfRanges_NeedsARuleBehindIt(t *testing.T) {
	const ban = "{name: ban, match: {pattern: /a/, ranges: 198.51.100.0/24}, ban: true}, "
	for rest, warned := range map[string]bool{
		ban: true,
		ban + "{name: b, match: POST /a/, key: all, limits: 1/m}":                true,
		ban + "{name: b, match: /, key: ip, limits: 1/m, on_failure: open}":      true,
		ban + "{name: b, match: /, key: all, limits: 1/m, shadow: true}":         true,
		ban + "{name: b, match: {ranges: '::/0'}, key: all, limits: 1/m}":        true,
		ban + "{name: b, match: /, key: ip, limits: 1/m}":                        false,
		ban + "{name: b, match: /, key: all, limits: 1/m, on_failure: open}":     false,
		"{name: ban, match: {ranges: 198.51.100.0/24}, ban: true, shadow: true}": false,
		"{name: ban, match: {pattern: /a/}, ban: true}":                          false,
		"{name: b, match: {ranges: 198.51.100.0/24}, key: ip, limits: 1/m}":      false,
		"{name: b, match: /a/b, key: ip, limits: 1/m}, " + ban:                   true,
		"{name: ban, match: {pattern: POST /a/, ranges: 198.51.100.0/24}, ban: true}, " +
			"{name: b, match: {pattern: /a/, methods: [GET, POST]}, key: ip, limits: 1/m}": false,
		ban + "{name: b, match: {pattern: /a/, headers: {X: y}}, key: all, limits: 9/m}": true,
	} {
		warnings := parsed(t, "rules: ["+rest+"]").Warnings()
		if !warned {
			assert.Empty(t, warnings, rest)
		} else if assert.Len(t, warnings, 1, rest) {
			assert.Contains(t, warnings[0], `line 1: the rule "ban" bans ranges`)
		}
	}
	assert.Empty(t, parsed(t, "match: all\nrules: [{name: b, key: ip, limits: 1/m}, "+ban+"]").Warnings())
}

// TestWarnings_Status401_NeedsAChallenge, which HTTP requires, and gRPC does not have.
func TestWarnings_Status401_NeedsAChallenge(t *testing.T) {
	for match, warned := range map[string]bool{"match: /a, status: 401": true, "status: 401": true,
		"match: {grpc: '*'}, status: 401": false, "status: 403": false} {
		warnings := parsed(t, one("key: ip, limits: 1/m, "+match)).Warnings()
		if !warned {
			assert.Empty(t, warnings, match)
		} else if assert.Len(t, warnings, 1, match) {
			assert.Contains(t, warnings[0], `line 2: the rule "a" answers 401, which requires a header WWW-Authenticate`)
		}
	}
}

// TestWarnings_RuleWithoutRequests_IsNamed, unless all rules decide: a reload does not fail for it.
func TestWarnings_RuleWithoutRequests_IsNamed(t *testing.T) {
	for rules, reached := range map[string]bool{
		"/api/ | /api/login":                                       false,
		"/api/ | /api":                                             true,
		"/api/login | /api/":                                       true,
		"/ | {grpc: '*'}":                                          true,
		"/ | [/x, {grpc: '*'}]":                                    true,
		"{grpc: '*'} | {grpc: /a.B/*}":                             false,
		"{grpc: '*'} | {grpc: /grpc.health.v1.Health/*}":           true, // not limited by a rule for all
		"POST / | /":                                               true,
		"{methods: [GET, POST]} | HEAD /x":                         false,
		"{methods: [GET, POST]} | {methods: [POST, PUT]}":          true,
		"a.example/ | b.example/x":                                 true,
		"a.example/ | A.example/x":                                 false,
		"'/{a}/{b}' | '/x/{c}'":                                    false,
		"'/x/{$}' | '/{a}/{$}'":                                    true,
		"'/{a}/{$}' | '/x/{$}'":                                    false,
		"'/{a...}' | '/x/{$}'":                                     false,
		"'/x/{$}' | /x/":                                           true,
		"{headers: {X: '*'}} | {headers: {X: y, Z: z}}":            false,
		"{headers: {X: y}} | {headers: {X: '*'}}":                  true,
		"{ranges: 10.0.0.0/8} | {pattern: /x, ranges: 10.0.0.0/8}": false,
		"{ranges: 10.0.0.0/8} | {ranges: 11.0.0.0/8}":              true,
		"{ranges: 10.0.0.0/8} | /":                                 true,
		"[/a/, /b/] | [/a/x, /b/x]":                                false,
		"[/a/, /b/] | [/a/x, /c/x]":                                true,
		"{pattern: /a/, headers: {X: y}} | {pattern: GET /a/b, headers: {X: y}}": false,
		"{pattern: 'GET a.example/a/{x}', ranges: '::/0'} | GET a.example/a/b":   true,
	} {
		before, after, _ := strings.Cut(rules, " | ")
		file := "rules:\n- {name: one, key: all, limits: 1/s, match: " + before + "}\n" +
			"- {name: two, key: all, limits: 1/s, match: " + after + "}\n"
		warnings := parsed(t, file).Warnings()
		if reached {
			assert.Empty(t, warnings, rules)
		} else {
			assert.Equal(t, []string{`line 3: the rule "two" gets no request, since the rule "one" before it ` +
				"matches them all: write it first, or match: all"}, warnings, rules)
		}
		assert.Empty(t, parsed(t, "match: all\n"+file).Warnings(), rules)
	}
}

// TestWarnings_ManyRules_ComparesTheFirst: each more would be compared with all before it.
func TestWarnings_ManyRules_ComparesTheFirst(t *testing.T) {
	file := "rules:\n- {name: first, key: all, limits: 1/s}\n"
	for i := range 2010 {
		file += fmt.Sprintf("- {name: r%d, match: /%d, key: all, limits: 1/s}\n", i, i)
	}
	assert.Equal(t, 1999, len(parsed(t, file).Warnings()))
}

func TestWarnings_LocalShare_RoundsToNothing(t *testing.T) {
	for text, warned := range map[string]bool{
		"limits: 5/m, on_failure: {local: 0.1}": true, "limits: 10/m, on_failure: {local: 0.1}": false,
		"limits: [100/m, 5/s], on_failure: {local: 0.1}": true, "limits: 5/m": false, "limits: 5/m, on_failure: open": false,
		"limits: {policy: smooth, rate: 1/s}, on_failure: {local: 0.1}": false,
	} {
		warnings := parsed(t, one("key: ip, "+text)).Warnings()
		if !warned {
			assert.Empty(t, warnings, text)
		} else if assert.Len(t, warnings, 1, text) {
			assert.Contains(t, warnings[0], `the rule "a" refuses all requests while Redis is down: its share is less than one of 5`)
		}
	}
}
