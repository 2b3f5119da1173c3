package rulestest

import "github.com/rratelimiter/rratelimiter/internal/guard/guardtest"

// Contract returns a file with a limit of [guardtest.TestChoices]. The exceptions of a client's request
// are in it too.
func Contract(by string) string {
	const limits = "limits: {rate: 1/h, policy: fixed_window}}\n"
	file := "address: {trusted: 10.0.0.1}\nrules:\n"
	switch by {
	case guardtest.ByHeader:
		return file + "- {name: a, key: header:Key, " +
			"overrides: [{key: k, limits: {rate: 1/h, policy: sliding_log}}], " + limits
	case guardtest.ByBinary:
		return file + "- {name: a, match: {grpc: '*'}, key: header:Key-Bin, " + limits
	case guardtest.ByClient:
		return file + "- {name: a, key: ip, skip: {ranges: 203.0.113.0/24}, " + limits
	case guardtest.ByRPC:
		return file + "- {name: a, match: {grpc: /shop.Login/Do}, key: all, " + limits
	}
	return file + "- {name: a, match: shop.example/login, key: all, " +
		"skip: {methods: [OPTIONS], paths: [/static/]}, " + limits
}
