package rls_test

import (
	"strings"
	"time"
)

var hits = []scenario{
	{"hits_addend", `
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: free}
`, []exchange{
		{0, "d x3 | a=1", "OK | OK 7/10 minute 60s"},
		{0, "d x0 | a=1", "OK | OK 6/10 minute 60s"}, // 0 is 1
		{0, "d x7 | a=1", "OVER | OVER 0/10 minute 60s"},
		{0, "d x6 | a=1", "OK | OK 0/10 minute 60s"}, // denied hits are not counted
		{0, "d x11 | a=2", "OVER | OVER 0/10 minute 60s"},
		{0, "d x10 | a=2", "OK | OK 0/10 minute 60s"},
		{0, "d x2 | a=3 +4 | b=3", "OK | OK 6/10 minute 60s | OK 3/5 minute 60s"}, // a descriptor's own hits take precedence
		{0, "d | a=4 +10 | b=4 +5 | free +99", "OK | OK 0/10 minute 60s | OK 0/5 minute 60s | OK"},
		{0, "d | a=5 +18446744073709551615",
			"error: rpc error: code = InvalidArgument desc = rls: descriptor 0 has hits_addend 18446744073709551615, want at most 2^53"},
	}},
	{"hits_addend 0 takes no permits", `
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 2}}
`, []exchange{
		{0, "d | a=1 +0", "OK | OK 2/2 minute 60s"},
		{0, "d | a=1", "OK | OK 1/2 minute 60s"},
		{0, "d | a=1 +0", "OK | OK 1/2 minute 60s"},
		{0, "d x9 | a=1 +0", "OK | OK 1/2 minute 60s"},
		{0, "d | a=1", "OK | OK 0/2 minute 60s"},
		{15 * time.Second, "d | a=1 +0", "OVER | OVER 0/2 minute 45s"}, // nothing is left
		{0, "d | a=2 +0 | a=1 +0", "OVER | OK 2/2 minute 45s | OVER 0/2 minute 45s"},
	}},
	{"hits_addend 0 shows the result of one hit, also of a policy that lends permits", `
  - {key: slow, rate_limit: {per: 10s, requests_per_unit: 1, policy: smooth}}
  - {key: ban, rate_limit: {unit: second, requests_per_unit: 0}}
`, []exchange{
		{0, "d | slow=1 +0", "OK | OK 0/1 unknown 10s"},
		{0, "d x3 | slow=1 | ban=1", "OVER | OK 0/1 unknown 10s | OVER 0/0 second 1s"}, // takes nothing
		{0, "d | slow=1", "OK"},
		{0, "d | slow=1 +0", "OVER"},
		{0, "d | slow=1", "OVER"},
	}},
	{"is_negative_hits releases permits", `
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 3}}
`, []exchange{
		{0, "d | a=1 +3", "OK | OK 0/3 minute 60s"},
		{0, "d | a=1 -2", "OK | OK 2/3 minute 60s"},
		{0, "d | a=1 +2", "OK | OK 0/3 minute 60s"},
		{0, "d | a=1 -9", "OK | OK 3/3 minute 60s"}, // never more than were taken
		{0, "d | a=1 -9", "OK | OK 3/3 minute 60s"},
		{0, "d | a=1 +3", "OK | OK 0/3 minute 60s"},
		{0, "d | a=1 +4", "OVER | OVER 0/3 minute 60s"},
		{0, "d | a=2 -1 | a=1", "OVER | OK 3/3 minute 60s | OVER 0/3 minute 60s"},
	}},
	{"slot_by separates nothing on a single Redis", `
  - {key: tenant, rate_limit: {unit: minute, requests_per_unit: 1}}
slot_by: tenant
`, []exchange{
		{0, "d | tenant=a", "OK | OK 0/1 minute 60s"},
		{0, "d | tenant=a | tenant=b", "OVER | OVER 0/1 minute 60s | OK 1/1 minute 60s"},
		{0, "d | tenant=b", "OK | OK 0/1 minute 60s"},
	}},
	{"bans decide without Redis", `
  - {key: ban, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: owing, overdraw: true, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true, name: free}}
  - {key: other, rate_limit: {unit: hour, requests_per_unit: 5, replaces: [{name: free}]}}
`, []exchange{
		{0, "d | ban=1 +0", "OVER | OVER 0/0 second 1s"},
		{0, "d | owing=1", "OVER | OVER 0/0 second 1s"},
		{0, "d | user=1 +3", "OK | OK 2/5 hour 3600s"},
		{0, "d | user=1 -2 | ban=1", "OVER | OK 4/5 hour 3600s | OVER 0/0 second 1s"},
		{0, "d | user=1 +0", "OK | OK 4/5 hour 3600s"},
		{0, "d | free=1 | other=1", "OK | OK unlimited | OK 4/5 hour 3600s"},
	}},
	{"descriptors that cost the same are decided atomically", `
  - {key: tight, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: wide, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: ban, rate_limit: {unit: hour, requests_per_unit: 0}}
`, []exchange{
		{0, "d | tight | wide", "OK | OK 0/1 minute 60s | OK 2/3 hour 3600s"},
		{0, "d | tight | wide", "OVER | OVER 0/1 minute 60s | OK 2/3 hour 3600s"},
		{0, "d | wide | tight", "OVER | OK 2/3 hour 3600s | OVER 0/1 minute 60s"},
		{0, "d | wide | ban", "OVER | OK 2/3 hour 3600s | OVER 0/0 hour 3600s"},
		{0, "d x4 | wide | tight=other", "OVER | OVER 0/3 hour 3600s | OVER 0/1 minute 60s"},
		{0, "d | wide | tight=other", "OK | OK 1/3 hour 3600s | OK 0/1 minute 60s"},
		{0, "d | wide | free=x", "OK | OK 0/3 hour 3600s | OK"},
		{0, "d | wide | wide", "OVER | OVER 0/3 hour 3600s | OVER 0/3 hour 3600s"},
		{0, "d | wide | free=x", "OVER | OVER 0/3 hour 3600s | OK"},
	}},
	{"what stands beside a descriptor over its limit lets nothing pass", `
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: path, rate_limit: {unit: hour, requests_per_unit: 300}}
`, []exchange{
		{0, "d | user=k", "OK"},
		{0, "d | user=k | user=k", "OVER"},
		{0, "d | unknown=k | user=k", "OVER"},
		{0, "d |  | user=k", "OVER"},  // a descriptor without entries
		{0, "d | = | user=k", "OVER"}, // an empty entry
		{0, "d | user=k | user=x | path=/login", "OVER"},
		{0, "d" + strings.Repeat(" | path=x", 200) + " | user=k", "OVER"},
	}},
	{"equal limiters are decided with their summed cost", `
  - {key: wide, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: tight, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: files, value: f/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: two, limits: [{unit: second, requests_per_unit: 3}, {unit: hour, requests_per_unit: 4}]}
  - {key: ban, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
`, []exchange{
		{0, "d | wide=a | wide=a | wide=a", "OK | OK 2/3 hour 3600s | OK 1/3 hour 3600s | OK 0/3 hour 3600s"},
		{0, "d | wide=b | wide=b", "OK | OK 2/3 hour 3600s | OK 1/3 hour 3600s"},
		{0, "d | wide=b | wide=b", "OVER | OVER 0/3 hour 3600s | OVER 0/3 hour 3600s"},
		{0, "d | wide=b", "OK | OK 0/3 hour 3600s"},
		{0, "d | wide=c | wide=c | wide=c | wide=c", "OVER"}, // more than there can be
		{0, "d | wide=c +3", "OK | OK 0/3 hour 3600s"},
		{0, "d | files=f/1 | files=f/2 +2", "OK | OK 4/5 hour 3600s | OK 2/5 hour 3600s"},
		{0, "d | files=f/1 | files=f/2 +2 | tight=a", "OVER | OVER 0/5 hour 3600s | OVER 0/5 hour 3600s | OK 1/1 minute 60s"},
		{0, "d | tight=a", "OK | OK 0/1 minute 60s"},
		{0, "d | two=a | two=a", "OK | OK 2/3 second 1s | OK 1/3 second 1s"},
		{0, "d | wide=d | ban | wide=d", "OVER | OK 3/3 hour 3600s | OVER 0/0 hour 3600s | OK 3/3 hour 3600s"},
		{0, "d | wide=e 3/hour | wide=e", "OK | OK 2/3 hour 3600s | OK 1/3 hour 3600s"},
		{0, "d | wide=f +0 | wide=f | wide=f +0", "OK | OK 3/3 hour 3600s | OK 2/3 hour 3600s | OK 3/3 hour 3600s"},
		{0, "d | shadow=a | shadow=a", "OK | OK 0/1 hour 3600s | OK 0/1 hour 3600s"},
	}},
	{"a request that is denied takes nothing, also if it has several costs", `
  - {key: own, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: files, value: f/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: budget, overdraw: true, rate_limit: {unit: hour, requests_per_unit: 100}}
`, []exchange{
		{0, "d | own=a | files=f/1 | files=f/2", "OK | OK 1/2 minute 60s | OK 8/9 hour 3600s | OK 7/9 hour 3600s"},
		{0, "d | files=f/1 | files=f/2 | own=a", "OK | OK 6/9 hour 3600s | OK 5/9 hour 3600s | OK 0/2 minute 60s"},
		{0, "d | own=a | files=f/1 | files=f/2", "OVER | OVER 0/2 minute 60s | OK | OK"},
		{0, "d | files=f/1 | files=f/2 | own=a", "OVER | OK | OK | OVER 0/2 minute 60s"},
		{0, "d | files=f/1 +0", "OK | OK 5/9 hour 3600s"},
		{0, "d | own=b | files=f/1 +6", "OVER | OK 2/2 minute 60s | OVER 0/9 hour 3600s"}, // refunded
		{0, "d | own=b +2", "OK | OK 0/2 minute 60s"},
		{0, "d | own=c 1/hour +1 | own=c 5/hour +1", "OK | OK 0/1 hour 3600s | OK 3/5 hour 3600s"}, // two limits of one limiter
		{0, "d | own=c 5/hour +1 | own=c 1/hour +1", "OVER | OK 3/5 hour 3600s | OVER 0/1 hour 3600s"},
		{0, "d | own=c 5/hour +0", "OK | OK 3/5 hour 3600s"},
		{0, "d | budget=a +500", "OVER | OVER 0/100 hour 3600s"},
		{0, "d | budget=a +0 | files=f/1", "OVER | OVER 0/100 hour 3600s | OK"},
		{0, "d | files=f/1 +0", "OK | OK 5/9 hour 3600s"},
		{0, "d | own=d | own=d -1 | own=d", "OK | OK 1/2 minute 60s | OK 1/2 minute 60s | OK 0/2 minute 60s"},
	}},
}

var modes = []scenario{
	{"shadow mode never denies, and takes no permits for hits over the limit", `
  - {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: e, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: ban, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
`, []exchange{
		{0, "d | s=1", "OK | OK 0/1 minute 60s"},
		{0, "d | s=1", "OK | OK 0/1 minute 60s"},
		{0, "d | s=1 | e=1", "OK | OK 0/1 minute 60s | OK 2/3 minute 60s"},
		{0, "d | ban | e=1", "OK | OK 0/0 minute 60s | OK 1/3 minute 60s"},
		{0, "d x2 | s=2 | e=1", "OVER | OK 0/1 minute 60s | OVER 0/3 minute 60s"},
		{0, "d | s=2 | e=1", "OK | OK 0/1 minute 60s | OK 0/3 minute 60s"},
	}},
	{"quotas deny if all of them do", `
  - {key: q, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: r, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: e, rate_limit: {unit: minute, requests_per_unit: 3}}
`, []exchange{
		{0, "d | q | r", "OK | OK 0/1 minute 60s | OK 1/2 minute 60s"},
		{0, "d | q | r", "OK | OVER 0/1 minute 60s | OK 0/2 minute 60s"},
		{0, "d | q | r", "OVER | OVER 0/1 minute 60s | OVER 0/2 minute 60s"},
		{0, "d | q", "OVER | OVER 0/1 minute 60s"},
		{0, "d | q | e", "OVER | OVER 0/1 minute 60s | OK 2/3 minute 60s"},
		{0, "d | q=new | e", "OK | OK 0/1 minute 60s | OK 1/3 minute 60s"},
		{0, "d x2 | r=new | e", "OVER | OK 0/2 minute 60s | OVER 0/3 minute 60s"},
		{0, "d | q=newer | unknown", "OK | OK 0/1 minute 60s | OK"},
	}},
	{"a limit that replaces another", `
  - key: class
    value: read
    descriptors:
      - {key: user, rate_limit: {name: reads, unit: minute, requests_per_unit: 1}}
  - key: path
    value: /big
    descriptors:
      - {key: user, rate_limit: {replaces: [{name: reads}], unit: minute, requests_per_unit: 3}}
  - {key: both, rate_limit: {name: b, replaces: [{name: reads}, {name: other}], unit: minute, requests_per_unit: 9}}
  - {key: over, rate_limit: {replaces: [{name: b}], unit: minute, requests_per_unit: 8}}
`, []exchange{
		{0, "d | class=read user=ann", "OK | OK 0/1 minute 60s reads"},
		{0, "d | class=read user=ann", "OVER | OVER 0/1 minute 60s reads"},
		{0, "d | class=read user=ann | path=/big user=ann", "OK | OK | OK 2/3 minute 60s"},
		{0, "d | path=/big user=ann | class=read user=ann", "OK | OK 1/3 minute 60s | OK"},
		{0, "d | class=read user=bob | path=/big user=bob", "OK | OK | OK 2/3 minute 60s"},
		{0, "d | class=read user=bob", "OK | OK 0/1 minute 60s reads"}, // it was not used
		{0, "d | both | class=read user=bob", "OK | OK 8/9 minute 60s b | OK"},
		{0, "d | over | both | class=read user=bob", "OK | OK 7/8 minute 60s | OK | OK"}, // a replaced limit replaces others too
		{0, "d | path=/big user=ann 1/hour | class=read user=ann",
			"OVER | OK 1/1 hour 3600s | OVER 0/1 minute 60s reads"},
	}},
}

// beyond are extensions of the reference.
var beyond = []scenario{
	{"any interval", `
  - {key: half, rate_limit: {per: 30s, requests_per_unit: 1}}
  - {key: minute, rate_limit: {per: 1m, requests_per_unit: 1}}
`, []exchange{
		{10 * time.Second, "d | half", "OK | OK 0/1 unknown 20s"},
		{0, "d | half", "OVER | OVER 0/1 unknown 20s"},
		{20 * time.Second, "d | half", "OK | OK 0/1 unknown 30s"},
		{0, "d | minute", "OK | OK 0/1 minute 30s"},
	}},
	{"several limits of one descriptor", `
  - key: user
    limits:
      - {name: burst, unit: second, requests_per_unit: 2}
      - {name: day, unit: day, requests_per_unit: 3}
  - {key: two, limits: [{unit: second, requests_per_unit: 1}, {unit: hour, requests_per_unit: 1}]}
`, []exchange{
		{0, "d | user=ann", "OK | OK 1/2 second 1s burst"},
		{0, "d | user=ann", "OK | OK 0/2 second 1s burst"},
		{0, "d | user=ann", "OVER | OVER 0/2 second 1s burst"},
		{time.Second, "d | user=ann", "OK | OK 0/3 day 86399s day"},
		{time.Second, "d | user=ann", "OVER | OVER 0/3 day 86398s day"},
		{0, "d | user=ann +0", "OVER | OVER 0/3 day 86398s day"},
		{0, "d | user=ann -1", "OK | OK 1/3 day 86398s day"},
		{0, "d | user=ann | user=bob", "OK | OK 0/3 day 86398s day | OK 1/2 second 1s burst"},
		{0, "d | two=1", "OK"},
		{0, "d | two=1", "OVER | OVER 0/1 hour 3598s"}, // the longest of those that deny
	}},
	{"policies", `
  - {key: bucket, rate_limit: {policy: token_bucket, unit: second, requests_per_unit: 1, capacity: 2}}
  - {key: log, rate_limit: {policy: sliding_log, per: 10s, requests_per_unit: 1}}
  - {key: window, rate_limit: {policy: sliding_window, per: 10s, requests_per_unit: 1, cells: 5}}
  - {key: own, rate_limit: {policy: fixed_window, aligned: false, per: 10s, requests_per_unit: 1}}
  - {key: leaky, rate_limit: {policy: leaky_bucket, unit: second, requests_per_unit: 1, capacity: 2}}
  - {key: month, rate_limit: {policy: calendar, unit: month, requests_per_unit: 1, in: Europe/Berlin}}
  - {key: smooth, rate_limit: {policy: smooth, unit: second, requests_per_unit: 1}}
`, []exchange{
		{3 * time.Second, "d | bucket +2", "OK | OK 0/1 second 2s"},
		{0, "d | bucket", "OVER | OVER 0/1 second 1s"},
		{0, "d | bucket +3", "OVER | OVER 0/1 second 1s"}, // above its capacity
		{0, "d | log", "OK | OK 0/1 unknown 10s"},
		{0, "d | log", "OVER | OVER 0/1 unknown 10s"},
		{0, "d | log=x +2", "OVER | OVER 0/1 unknown 10s"}, // above its limit, which is decided without Redis
		{0, "d | own=x +2", "OVER | OVER 0/1 unknown 10s"},
		{0, "d | window", "OK | OK 0/1 unknown 11s"},
		{0, "d | own", "OK | OK 0/1 unknown 10s"},
		{0, "d | leaky +2", "OK | OK 0/1 second 2s"},
		{0, "d | month", "OK | OK 0/1 month 2674797s"}, // January there, less an hour and three seconds
		{0, "d | smooth +5", "OK | OK 0/1 second 5s"},
		{0, "d | smooth", "OVER | OVER 0/1 second 4s"},
	}},
	{"overdraw allows charges over the limit", `
  - {key: user, overdraw: true, rate_limit: {unit: hour, requests_per_unit: 100}}
  - {key: strict, rate_limit: {unit: hour, requests_per_unit: 100}}
  - {key: bucket, overdraw: true, rate_limit: {unit: second, requests_per_unit: 3, policy: token_bucket}}
`, []exchange{
		{0, "d | user=ann +0", "OK | OK 100/100 hour 3600s"},
		{0, "d | user=ann +70", "OK | OK 30/100 hour 3600s"},
		{0, "d | user=ann +0", "OK | OK 30/100 hour 3600s"},
		{0, "d | user=ann +70", "OVER | OVER 0/100 hour 3600s"},
		{0, "d | user=ann +0", "OVER | OVER 0/100 hour 3600s"},
		{0, "d | user=ann -30", "OK | OK 0/100 hour 3600s"}, // 10 are still owed
		{0, "d | user=ann -20", "OK | OK 10/100 hour 3600s"},
		{0, "d | user=bob +500", "OVER | OVER 0/100 hour 3600s"},
		{0, "d | user=bob +0", "OVER | OVER 0/100 hour 3600s"},
		{0, "d | strict=bob +70", "OK | OK 30/100 hour 3600s"},
		{0, "d | strict=bob +70", "OVER | OVER 0/100 hour 3600s"},
		{0, "d | strict=bob +0", "OK | OK 30/100 hour 3600s"},
		{0, "d | bucket=1 +9007199254740992", "OVER | OVER 0/3 second 9223372037s"}, // the longest duration
	}},
}
