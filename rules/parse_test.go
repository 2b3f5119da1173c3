package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

// mistake is a file, and what is reported of it.
type mistake struct{ file, want string }

// mistakes are those that the schema can express.
var mistakes = []mistake{
	{"null", "f.yaml:1:1: nothing, want a mapping"},
	{"domain: x\n", "f.yaml:1:1: no rules: give a list, which may be empty"},
	{"rules:\n", "f.yaml:1:7: rules: nothing, want a list of rules"},
	{"rules: []\nrule: x\n",
		`f.yaml:2:1: rule: unknown field "rule", want address, deadline, defaults, domain, escaped_slashes, forward_auth, match, max_waiting, on_invalid, rules, spread`},
	{"domain: a b\nrules: []", `f.yaml:1:9: domain: the domain "a b", want printable ASCII without spaces`},
	{"match: every\nrules: []", `f.yaml:1:8: match: "every", want first or all`},
	{one("key: method, limits: 1/s, overrides: [{ban: true}]"), "f.yaml:2:51: rules[0].overrides[0]: no key: say whose limits these are"},
	{"address: {ipv6_bits: 129}\nrules: []", "f.yaml:1:22: address.ipv6_bits: 129, want bits of an address, 1 to 128"},
	{"defaults: {policy: bucket}\nrules: []",
		`f.yaml:1:20: defaults.policy: no policy "bucket", want one of ` + policy.Names()},
	{"rules:\n- x\n", `f.yaml:2:3: rules[0]: the text "x", want a mapping`},
	{"rules:\n- {limits: 1/s, key: ip}\n",
		"f.yaml:2:3: rules[0]: no name: limits count under it, and keep what was taken when the rule moves"},
	{"rules:\n- {name: 5, ban: true}\n",
		"f.yaml:2:10: rules[0].name: the number 5, want a text of letters, digits, dots, dashes and underscores, at most 128"},
	{"rules:\n- {name: 'a:b', ban: true}\n",
		`f.yaml:2:10: rules[0].name: the name "a:b", want a text of letters, digits, dots, dashes and underscores, at most 128`},
	{"rules:\n- {name: a}\n", "f.yaml:2:3: rules[0]: no limits: give limits, or ban: true"},
	{"rules:\n- {name: a, ban: false}\n", "f.yaml:2:18: rules[0].ban: want true, or leave it out"},
	{"rules:\n- {name: a, ban: true, limits: 1/s}\n",
		"f.yaml:2:18: rules[0].ban: ban and limits: a rule has one of the two"},
	{one("key: ip, limits: 10"), "f.yaml:2:30: rules[0].limits: the number 10, want a text like 10/s, or a mapping"},
	{one("key: ip, limits: 10/x"),
		`f.yaml:2:30: rules[0].limits: no unit "x", want second, minute, hour, day, week, or a length of time like 30s`},
	{one("key: ip, limits: []"), "f.yaml:2:30: rules[0].limits: an empty list, want a limit"},
	{one("key: ip, limits: {permits: 5}"),
		"f.yaml:2:30: rules[0].limits: no rate: give rate, a text like 10/s, 100/minute, 5/30s or 1000/day, or both permits and per"},
	{one("key: ip, limits: {permits: 5.5, per: s}"),
		"f.yaml:2:40: rules[0].limits.permits: the number 5.5, want a whole number of permits, 0 to 2^53"},
	{one("key: ip, limits: {rate: 1/s, permits: 5}"), "rate and permits or per"},
	{one("key: ip, limits: {rate: 1/s, policy: bucket}"), `f.yaml:2:50: rules[0].limits.policy: no policy "bucket"`},
	{one("key: ip, limits: {rate: 1/s, type: overall}"), "type and keep_alive are for limits with redisson"},
	{one("limits: {redisson: x, policy: smooth}"), "a limit with redisson has no policy"},
	{one("limits: {redisson: x, type: overall}"), "type and keep_alive are of a rate"},
	{one("key: body, limits: 1/s"),
		`f.yaml:2:18: rules[0].key: no key "body", want a text: ip, header:NAME, hashed_header:NAME, cookie:NAME, query:NAME, path:WILDCARD, method, constant:TEXT or all`},
	{one("key: 'query:', limits: 1/s"), `f.yaml:2:18: rules[0].key: "query:" has no name`},
	{one("key: 'cookie:a b', limits: 1/s"), `f.yaml:2:18: rules[0].key: "cookie:a b" has no name`},
	{one("ban: true, status: 418"), "f.yaml:2:32: rules[0].status: 418, want 401, 403, 404, 429 or 503"},
	{one("ban: true, refund: 600"), "f.yaml:2:32: rules[0].refund: the number 600, want a status like 200, a class like 2xx"},
	{one("ban: true, refund: 101"), "f.yaml:2:32: rules[0].refund: the number 101, want a status like 200, a class like 2xx"},
	{one("ban: true, refund: [1xx]"), `f.yaml:2:33: rules[0].refund[0]: the text "1xx", want a status`},
	{one("ban: true, refund: [7xx]"), `f.yaml:2:33: rules[0].refund[0]: the text "7xx", want a status`},
	{one("ban: true, refund: []"), "f.yaml:2:32: rules[0].refund: a list, want a status"},
	{one("ban: true, headers: four"), `f.yaml:2:33: rules[0].headers: "four", want one of draft11, three_headers, x_rate_limit, none`},
	{"address: {ipv4_bits: 33}\nrules: []", "f.yaml:1:22: address.ipv4_bits: 33, want bits of an address, 1 to 32"},
	{one("key: [all, ip], limits: 1/s"), "all is one limit for all requests: remove the other parts"},
	{one("key: 'header:a b', limits: 1/s"), `"a b" is no name of a header`},
	{one("key: ip, limits: 1/s, match: post /x"),
		`f.yaml:2:42: rules[0].match: the pattern "post /x": the method "post" matches no request: write POST`},
	{one("key: ip, limits: 1/s, match: x"),
		`the pattern "x": it has no path: write a slash behind the host, or in front of the path`},
	{one("key: ip, limits: 1/s, match: {headers: {Host: x}}"), "the pattern of a rule has the host"},
	{one("key: ip, limits: 1/s, match: {grpc: Create}"), `"Create" is no method of gRPC`},
	{one("key: ip, limits: 1/s, match: {grpc: a.B/C}"), `"a.B/C" is no method of gRPC`},
	{one("key: ip, limits: 1/s, match: {grpc: /a.B/C/d}"), `"/a.B/C/d" is no method of gRPC`},
	{one("key: ip, limits: 1/s, cost: 0"), "f.yaml:2:41: rules[0].cost: 0, want a whole number of permits from 1 on"},
	{one("key: ip, limits: 1/s, cost: bytes"), `"bytes" is no cost`},
	{one("key: ip, limits: 1/s, deadline: 5s"),
		`f.yaml:2:35: rules[0].deadline: unknown field "deadline", want ban, cost`},
	{"defaults: {spread: 1s}\nrules: []", `f.yaml:1:12: defaults.spread: unknown field "spread", want cost`},
	{"max_waiting: 0\nrules: []", "f.yaml:1:14: max_waiting: 0, want a whole number of requests, 1 to 1,000,000"},
	{"on_invalid: open\nrules: []", `f.yaml:1:13: on_invalid: "open", want refuse or on_failure`},
	{"deadline: 5\nrules: []",
		"f.yaml:1:11: deadline: the number 5, want a text like 500ms, 30s, 1m30s, 12h or 7d"},
	{one("key: ip, limits: 1/s, wait: -1s"), `"-1s" is no length of time`},
	{one("key: ip, limits: 1/s, shadow: 1"), "f.yaml:2:43: rules[0].shadow: the number 1, want true or false"},
	{one("key: ip, limits: 1/s, on_failure: maybe"), `"maybe", want open, closed, or a mapping like {local: 0.1}`},
	{one("key: ip, limits: 1/s, on_failure: {local: 1.5}"), "1.5, want a share of the limit, above 0, at most 1"},
	{one("key: ip, limits: 1/s, skip: {paths: [GET /x]}"), `"GET /x", want a text, a path like /health or /static/`},
	{one("key: method, limits: 1/s, overrides: [{key: GET}]"),
		"an override has one of limits, ban: true and unlimited: true"},
	{one("key: method, limits: 1/s, overrides: [{key: 7, ban: true}]"),
		"the number 7, want a text, the key of a request; what is no text of itself needs quotes"},
	{one("key: ip, limits: 1/s, match: bücher.example/"),
		`the host "bücher.example", want a name as requests have it, in ASCII (xn--... for other letters), without a port and without wildcards`},
	{one("key: ip, limits: 1/s, match: example.com:80/"), `the host "example.com:80"`},
	{one("key: ip, limits: 1/s, match: '/a?b=c'"),
		`'?' in the path "/a?b=c" is in no request's path: leave out a query, and write %3F for the character`},
	{one("key: ip, limits: 1/s, match: '/a#b'"), "write %23"},
	{one("key: ip, limits: 1/s, match: 'GET /a '"), "write %20"},
	{one("key: ip, limits: 1/s, match: {grpc: /a/b, methods: POST}"),
		"f.yaml:2:42: rules[0].match: grpc and methods, which are those of HTTP: leave out methods"},
	{one("key: ip, limits: 1/s, match: {headers: {X: ' y'}}"), `" y" has spaces around it, which no header's value has`},
	{"\"a\\nb\": 1\nrules: []\n", `f.yaml:1:1: ["a\nb"]: unknown field "a\nb"`},
	{"rules: " + strings.Repeat("[", 3000) + strings.Repeat("]", 3000), "the file has values more than 1000 deep"},
}

var otherMistakes = []mistake{
	{one("key: ip, limits: 9007199254740993/s"), "too many permits, want at most 2^53"},
	{"# nothing\n", "f.yaml: the file has nothing but comments"},
	{"rules: []\nrules: []\n", `f.yaml:2:1: rules: "rules" is there twice, first in line 1`},
	{"rules: []\n---\nrules: []\n", "f.yaml:3:1: 2 documents in one file, want one"},
	{"rules: [\n", "f.yaml:2:1: no YAML: did not find expected node content (while parsing a flow node)"},
	{"rules:\n  - {name: a, ban: true}\n - {name: b}\n",
		"f.yaml:3:2: no YAML: did not find expected key (while parsing a block mapping that begins in line 1)"},
	{"rules: []\ndomain: \xff\n", "f.yaml:2: the file is not UTF-8"},
	{"domain: 'a{'\nrules: []", "slot"},
	{"address: {trusted: [10.0.0.0/33]}\nrules: []",
		`f.yaml:1:21: address.trusted[0]: "10.0.0.0/33" is no range of addresses, want one like 10.0.0.0/8 or 2001:db8::/32`},
	{"rules:\n- {name: a, ban: true}\n- {name: b, ban: true}\n- {name: a, ban: true}\n",
		`f.yaml:4:3: rules[2]: the name "a" is there twice, first in line 2`},
	{"rules:\n- {name: a, limits: 1/s}\n",
		"f.yaml:2:3: rules[0]: no key: say whose requests count together, ip or header:NAME for instance, or all"},
	{one("key: ip, limits: {rate: 1/s, policy: calendar}"),
		`f.yaml:2:37: rules[0].limits.rate: no unit "s" of the calendar, want day, week, month or year`},
	{one("key: ip, limits: [1/s, 2/s]"),
		"f.yaml:2:30: rules[0].limits: two of the limits would count in the same key: leave one out, or give it another policy or time"},
	{one("key: ip, limits: [1/s, 1/m, 1/h, 1/d, 1/w, 1/2s, 1/3s, 1/4s, 1/5s, 1/6s, 1/7s]"), "11 limits, want 10 at most"},
	{one("key: ip, limits: 10/7ms"),
		"SlidingWindow.Interval is 7ms, which 10 cells do not divide into whole milliseconds"},
	{one("key: ip, limits: {rate: 1/day, policy: calendar, in: Mars/Base}"), `no time zone "Mars/Base"`},
	{one("limits: {redisson: x, rate: 0/s}"), "0 permits, want 1 to 2^53"},
	{one("limits: [{redisson: x}, {redisson: x}]"), "would count in the same key"},
	{one("key: path:id, limits: 1/s, match: ['/a/{id}', /b]"),
		"f.yaml:2:18: rules[0].key: the key needs the wildcard {id} in each pattern of match"},
	{one("key: ip, limits: 1/s, match: //x"), `the path "//x" has an empty segment: write one slash`},
	{one("key: ip, limits: 1/s, match: '/{a}/{a}'"), "the wildcard {a} is there twice"},
	{one("key: ip, limits: 1/s, match: '/x{a}'"), `the segment "x{a}", want a wildcard as a whole segment, as /{id}/`},
	{one("key: ip, limits: 1/s, match: '/{a...}/b'"), "{a...} is not at the end"},
	{"deadline: 106752d\nrules: []", `"106752d" is no length of time`},
	{one("key: all, limits: 1/s, overrides: [{key: x, ban: true}]"), "the rule has no key, and so none to override"},
	{one("key: method, limits: 1/s, overrides: [{key: GET, ban: true}, {key: GET, ban: true}]"),
		`the key "GET" is there twice`},
	{one("key: method, limits: 1/s, overrides: [{key: [GET, PUT], ban: true}]"),
		"2 parts, want 1, as the rule's key has"},
	{one("key: ip, limits: 1/s, overrides: [{key: 10.0.0.0/8, ban: true}]"), "clients of 10.0.0.0/8 do not count as one"},
	{one("key: ip, limits: 1/s, overrides: [{key: 10.0.0, ban: true}]"), `"10.0.0" is no address`},
	{"rules:\n- {<<: [[]]}\n", `f.yaml:2:9: << is "", want a mapping`},
	{"rules:\n- {? [a] : b}\n", "a list, want the name of a field"},
	{"rules:\n- {name: a, limits: {redisson: q, rate: 1/s}}\n- {name: b, limits: {redisson: q, rate: 2/s}}\n",
		`f.yaml:3:3: rules[1]: the rule "b" states another rate for the limiter "q" than a rule before it: state it once`},
	{one("key: ip, limits: 1/s, match: ./x"), `the host "."`},
	{one("key: ip, limits: 1/s, match: a..b/x"), `the host "a..b"`},
	{one("key: ip, limits: 1/s, match: .b/x"), `the host ".b"`},
	{one("key: ip, limits: 1/s, match: /a/../b"),
		`the path has a dot segment, or an escape that is not valid: requests for "/a/../b" are refused`},
	{one("key: ip, limits: 1/s, match: /a%2Fb"),
		`the pattern "/a%2Fb" has an escaped slash or a backslash: requests with it are refused, unless the file has escaped_slashes: allow`},
	{one("key: ip, limits: 1/s, skip: {paths: '/a%5cb'}"), `the path "/a%5cb" has an escaped slash or a backslash`},
	{one("key: method, limits: 1/s, overrides: [{key: HEAD, ban: true}]"), `"HEAD" is no key of a method`},
	{one("key: ip, limits: 1/s, match: {ranges: '64:ff9b::/96'}"),
		"64:ff9b::/96 has no clients: they are known by the IPv4 addresses that it stands for"},
	{one("key: ip, limits: 1/s, match: {pattern: POST /a, methods: [GET, PUT]}"),
		"no request is of the pattern's method POST and of one in methods: name methods once"},
	{one("key: header:X, limits: 1/s, overrides: [{key: 'y ', ban: true}]"),
		`"y " has spaces around it, which no header's value has`},
	{one("key: method, limits: 1/s, overrides: [{key: post, ban: true}]"),
		`"post" is no key of a method, want one like POST, other for all that net/http has no name for, or one of gRPC like /shop.Orders/Create`},
	{one("key: [ip, 'constant:x'], limits: 1/s, overrides: [{key: [10.0.0.1, y], ban: true}]"),
		`overrides[0].key[1]: "y", want "x", the constant of the rule's key`},
	{"rules:\n- {name: a\x00, ban: true}\n", "f.yaml:2: no YAML: control characters are not allowed"},
	{"# \uffff\nrules: []\n", "f.yaml:1: no YAML: control characters are not allowed"},
	{"\ufeff", "f.yaml: the file is empty"},
	{strings.Repeat("[", 20000), "f.yaml"},
}

func TestParse_WrongFile_ReportsTheReason(t *testing.T) {
	for _, tt := range slices.Concat(mistakes, otherMistakes) {
		_, err := Parse("f.yaml", []byte(tt.file))
		shown := tt.file[:min(len(tt.file), 80)]
		if !assert.Error(t, err, shown) {
			continue
		}
		assert.Contains(t, err.Error(), tt.want, shown)
		assert.NotContains(t, err.Error(), "go-yaml", shown)
		assert.NotEmpty(t, rulefile.ProblemsOf(err), shown)
	}
}

// TestParse_RuleWithoutRequests_IsAnError: the operator relies on a limit that never applies.
func TestParse_RuleWithoutRequests_IsAnError(t *testing.T) {
	for match, want := range map[string]string{
		"{headers: {Transfer-Encoding: chunked}}":                     "the header Transfer-Encoding is about a connection",
		"{headers: {trailer: '*'}}":                                   "the header Trailer is about a connection",
		"{grpc: '*', headers: {grpc-timeout: '*'}}":                   "grpc-go takes the header Grpc-Timeout out of a call: no call matches",
		"{headers: {X: \"a\\nb\"}}":                                   "has a control character",
		"'/" + strings.Repeat("a", 8192) + "'":                        "the path is longer than 8192 bytes",
		"/x, key: header:trailer":                                     "the header Trailer is about a connection",
		"/x, cost: header:transfer-encoding":                          "the header Transfer-Encoding is about a connection",
		"'/p/{id}', key: path:id, overrides: [{key: a/b, ban: true}]": `"a/b" is no key: a request with a slash in {id} is refused`,
	} {
		if !strings.Contains(match, "key:") {
			match += ", key: ip"
		}
		_, err := Parse("f.yaml", []byte(one("limits: 1/s, match: "+match)))
		assert.ErrorContains(t, err, want, match)
	}
}

func TestParse_JSON_IsRead(t *testing.T) {
	s, err := Parse("f.json", []byte("{\n\t"+`"domain": "sh\u006fp", "rules": [{"name": "\u0061", "ban": true}]}`))
	require.NoError(t, err)
	require.Equal(t, no, status(s.Middleware(offline)(&ok{}), "GET /"))
	_, err = Parse("f.json", []byte(`{"rules": [{"name": "ä", "nam": 1}]}`))
	assert.ErrorContains(t, err, `f.json:1:26: rules[0].nam: unknown field "nam"`)
}

// TestParse_FieldOfAPolicy_IsNamedAsInTheFile, and not as in Go.
func TestParse_FieldOfAPolicy_IsNamedAsInTheFile(t *testing.T) {
	for limits, want := range map[string]string{
		"{in_flight: 2}":         "lease of in_flight is 0s, want whole milliseconds",
		"[9/h, {policy: pause}]": "most of pause is 0s, want whole milliseconds",
	} {
		_, err := Parse("f.yaml", []byte("match: all\nrules:\n- {name: a, key: all, limits: "+limits+"}\n"))
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "InFlight.")
	}
}

// An error in what an anchor names has the field of each use.
func TestParse_Anchors_AreResolved(t *testing.T) {
	const text = "match: all\nrules:\n- &a {name: a, key: ip, limits: &l 10/h}\n" +
		"- {<<: *a, name: b}\n- {name: c, key: all, limits: *l}\n"
	s, err := Parse("f.yaml", []byte(text))
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, namesOf(s))
	_, err = Parse("f.yaml", []byte(strings.Replace(text, "10/h", "10/x", 1)))
	assert.ErrorContains(t, err, `f.yaml:3:33: rules[0].limits: no unit "x"`)
	assert.ErrorContains(t, err, `f.yaml:3:33: rules[2].limits: no unit "x"`)
}

// The limits and the overrides of a rule share its policy.
func TestParse_SameErrorOften_IsReportedOnce(t *testing.T) {
	_, err := Parse("f.yaml",
		[]byte(one("key: method, policy: bucket, limits: 1/s, overrides: [{key: GET, limits: 2/s}, {key: PUT, limits: 3/s}]")))
	assert.EqualError(t, err,
		`f.yaml:2:34: rules[0].policy: no policy "bucket", want one of `+policy.Names())
}

func TestParse_LongValue_ErrorIsShort(t *testing.T) {
	long := strings.Repeat("a", 1<<16)
	for _, file := range []string{
		one("key: ip, limits: 1/s, match: '/{" + long + "...}/b'"),
		one("key: ip, limits: 1/s, match: '/{" + long + "}/{" + long + "}'"),
		one("key: path:" + long + ", limits: 1/s"),
		one("key: [ip, constant:" + long + "], limits: 1/s, overrides: [{key: [10.0.0.1, x], ban: true}]"),
		"domain: " + long + "\nrules: []\n", "domain: " + long + "{\nrules: []\n", "rules: *" + long + "\n",
		long + ": x\nrules: []\n",
		`{"` + long + `" 1}`,
	} {
		_, err := Parse("f.yaml", []byte(file))
		if assert.Error(t, err) {
			assert.Less(t, len(err.Error()), 500, rulefile.Cut(200, err.Error()))
		}
	}
}

func TestParse_ManyErrors_ReportsTwentyAtMost(t *testing.T) {
	_, err := Parse("f.yaml", []byte("rules:\n"+strings.Repeat("- {nam: a}\n", 100)))
	require.Error(t, err)
	assert.Len(t, strings.Split(err.Error(), "\n"), rulefile.MaxProblems)
}

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
