package rls_test

import "time"

var matching = []scenario{
	{"nested, and a key alone counts each value", `
  - key: kind
    value: offer
    descriptors:
      - {key: to, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: to, rate_limit: {unit: day, requests_per_unit: 3}}
`, []exchange{
		{0, "d | kind=offer to=ann", "OK | OK 1/2 day 86400s"},
		{0, "d | kind=offer to=bob", "OK | OK 1/2 day 86400s"},
		{0, "d | kind=offer to=ann | to=ann", "OK | OK 0/2 day 86400s | OK 2/3 day 86400s"},
		{0, "d | kind=offer to=ann | to=ann", "OVER | OVER 0/2 day 86400s | OK 2/3 day 86400s"}, // takes no permits of the second
		{0, "d | to=ann", "OK | OK 1/3 day 86400s"},
		{0, "d | to=ann kind=offer", "OK | OK"},
		{0, "d | kind=offer to", "OK | OK 1/2 day 86400s"},
	}},
	{"the depth must be equal", `
  - key: a
    value: x
    rate_limit: {unit: minute, requests_per_unit: 5}
    descriptors:
      - key: b
        rate_limit: {unit: minute, requests_per_unit: 3}
        descriptors:
          - {key: c, value: z, rate_limit: {unit: minute, requests_per_unit: 1}}
`, []exchange{
		{0, "d | a=x", "OK | OK 4/5 minute 60s"},
		{0, "d | a=x b=y", "OK | OK 2/3 minute 60s"},
		{0, "d | a=x b=y c=z", "OK | OK 0/1 minute 60s"},
		{0, "d | a=x b=y c=other", "OK | OK"},
		{0, "d | a=x c=z", "OK | OK"},
		{0, "d | a=x b=y c=z d=w", "OK | OK"},
		{0, "d | a=x", "OK | OK 3/5 minute 60s"},
	}},
	{"no limit and nothing below passes everything, and domains of no file too", `
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: user, value: admin}
`, []exchange{
		{0, "d | user=admin", "OK | OK"},
		{0, "d | user=eve", "OK | OK 0/1 minute 60s"},
		{0, "d | user=eve | user=admin", "OVER | OVER 0/1 minute 60s | OK"},
		{0, "unknown | user=eve", "OK | OK"},
		{0, "unknown | user=eve | user=adam 5/minute", "OK | OK | OK"},
		{0, "-", "error: rpc error: code = InvalidArgument desc = rls: the request has no domain"},
		{0, "d", "error: rpc error: code = InvalidArgument desc = rls: the request has no descriptors"},
	}},
	{"wildcards at the end, in the midst, several", `
  - {key: v, value: pre*, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: path, value: /api/*/run, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: route, value: /v*/books/*/pages, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: any, value: "*", rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: tight, value: ab*ba, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: twice, value: "*b*b*", rate_limit: {unit: minute, requests_per_unit: 6}}
`, []exchange{
		{0, "d | v=pre", "OK | OK 0/1 minute 60s"},
		{0, "d | v=prefix", "OK | OK 0/1 minute 60s"},
		{0, "d | v=prefix", "OVER | OVER 0/1 minute 60s"},
		{0, "d | v=opre", "OK | OK"},
		{0, "d | path=/api/7/run", "OK | OK 1/2 minute 60s"},
		{0, "d | path=/api//run", "OK | OK 1/2 minute 60s"},
		{0, "d | path=/api/run", "OK | OK"},
		{0, "d | route=/v1/books/7/pages", "OK | OK 2/3 minute 60s"},
		{0, "d | route=/v1/pages/7/books", "OK | OK"},
		{0, "d | any=thing", "OK | OK 3/4 minute 60s"},
		{0, "d | any", "OK | OK 3/4 minute 60s"},
		{0, "d | tight=abba", "OK | OK 4/5 minute 60s"},
		{0, "d | tight=aba", "OK | OK"},
		{0, "d | twice=xbbx", "OK | OK 5/6 minute 60s"},
		{0, "d | twice=xbx", "OK | OK"},
	}},
	{"exact before wildcards, those in the order of the file, the key alone last", `
  - {key: p, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: p, value: a*, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: p, value: ab*, rate_limit: {unit: minute, requests_per_unit: 30}}
  - {key: p, value: abc, rate_limit: {unit: minute, requests_per_unit: 40}}
`, []exchange{
		{0, "d | p=abc", "OK | OK 39/40 minute 60s"},
		{0, "d | p=aBC", "OK | OK 19/20 minute 60s"},
		{0, "d | P=abc", "OK | OK"},
		{0, "d | p=abd", "OK | OK 19/20 minute 60s"},
		{0, "d | p=a", "OK | OK 19/20 minute 60s"},
		{0, "d | p=b", "OK | OK 9/10 minute 60s"},
		{0, "d | p", "OK | OK 9/10 minute 60s"},
	}},
	{"values of a wildcard that share a limiter", `
  - {key: files, value: docs/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: alone, value: docs/*, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: tree
    value: t*
    share_threshold: true
    descriptors:
      - {key: leaf, rate_limit: {unit: hour, requests_per_unit: 1}}
`, []exchange{
		{0, "d | files=docs/a", "OK | OK 1/2 hour 3600s"},
		{0, "d | files=docs/b", "OK | OK 0/2 hour 3600s"},
		{0, "d | files=docs/c", "OVER | OVER 0/2 hour 3600s"},
		{0, "d | alone=docs/a", "OK | OK 0/1 hour 3600s"},
		{0, "d | alone=docs/b", "OK | OK 0/1 hour 3600s"},
		{0, "d | alone=docs/a", "OVER | OVER 0/1 hour 3600s"},
		{0, "d | tree=t1 leaf=x", "OK | OK 0/1 hour 3600s"},
		{0, "d | tree=t2 leaf=x", "OVER | OVER 0/1 hour 3600s"},
		{0, "d | tree=t2 leaf=y", "OK | OK 0/1 hour 3600s"},
	}},
	{"entries whose texts are equal when they are joined count apart", `
  - {key: a, value: b_c, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: k
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors: [{key: j, rate_limit: {unit: minute, requests_per_unit: 1}}]
`, []exchange{
		{0, "d | a=b_c", "OK | OK 0/1 minute 60s"},
		{0, "d | a_b=c", "OK | OK 0/1 minute 60s"},
		{0, "d | a=b_c", "OVER | OVER 0/1 minute 60s"},
		{0, "d | k=v j=w", "OK | OK 0/1 minute 60s"},
		{0, "d | k=v|j|w", "OK | OK 0/1 minute 60s"},
	}},
}

var units = []scenario{
	{"each unit, in any case", `
  - {key: second, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: minute, rate_limit: {unit: MINUTE, requests_per_unit: 1}}
  - {key: hour, rate_limit: {unit: Hour, requests_per_unit: 1}}
  - {key: day, rate_limit: {unit: dAY, requests_per_unit: 1}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 1}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 1}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 1}}
`, []exchange{
		{90 * time.Minute, "d | second", "OK | OK 0/1 second 1s"},
		{0, "d | minute", "OK | OK 0/1 minute 60s"},
		{0, "d | hour", "OK | OK 0/1 hour 1800s"},
		{0, "d | day", "OK | OK 0/1 day 81000s"},
		{0, "d | week", "OK | OK 0/1 week 426600s"},    // they begin on Thursdays, as 1970 did
		{0, "d | month", "OK | OK 0/1 month 1981800s"}, // of 30 days
		{0, "d | year", "OK | OK 0/1 year 30925800s"},  // of 365 days
		{30 * time.Minute, "d | hour", "OK | OK 0/1 hour 3600s"},
		{0, "d | month", "OVER | OVER 0/1 month 1980000s"},
	}},
	{"unlimited", `
  - {key: ldap, rate_limit: {unlimited: true}}
  - {key: azure, rate_limit: {unit: minute, requests_per_unit: 1}}
`, []exchange{
		{0, "d | ldap", "OK | OK unlimited"},
		{0, "d x1000 | ldap", "OK | OK unlimited"},
		{0, "d | ldap | azure", "OK | OK unlimited | OK 0/1 minute 60s"},
		{0, "d | ldap | azure", "OVER | OK unlimited | OVER 0/1 minute 60s"},
		{0, "d | ldap 1/hour", "OK | OK 0/1 hour 3600s"},
	}},
	{"the request's own limit wins", `
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1, name: mine}, shadow_mode: true}
`, []exchange{
		{0, "d | user=ann 3/minute", "OK | OK 2/3 minute 60s"},
		{0, "d | user=ann 3/minute", "OK | OK 1/3 minute 60s"},
		{0, "d | user=ann", "OK | OK 0/1 minute 60s mine"}, // counts on, and is over in shadow mode
		{0, "d | user=ann 2/minute", "OVER | OVER 0/2 minute 60s"},
		{0, "d | user=ann 2/hour", "OK | OK 1/2 hour 3600s"},
		{0, "d | user=ann 7/year", "OK | OK 6/7 year 30931200s"},
		{0, "d | user=ann 0/second", "OVER | OVER 0/0 second 1s"},
		{0, "d | unknown=1 deep=too 1/minute", "OK | OK 0/1 minute 60s"},
		{0, "d | unknown=1 deep=too 1/minute", "OVER | OVER 0/1 minute 60s"},
		{0, "d | user=ann 1/unknown",
			"error: rpc error: code = InvalidArgument desc = rls: descriptor 0 brings a limit of unit UNKNOWN, " +
				"want SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"},
	}},
}
