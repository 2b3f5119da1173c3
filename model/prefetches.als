/*
 * Prefetches, clocks and failover of one limiter.
 *
 * Clients take permits from a master, at once or as prefetches, which they use later. The master
 * replicates to a replica, which takes its place when it dies. Clocks differ from real time by at
 * most a tick, in either direction, and jump. The rate is lowered once. Each step is one event.
 *
 * A permit is an atom, which is granted once. The interval is three ticks, a prefetch lasts one.
 */
module prefetches
open util/ordering[Tick] as ticks

sig Tick {}

sig Client { var clock: one Tick }

sig Permit {
  var date: lone Tick,       -- in the master's set: the date of its grant
  var copy: lone Tick,       -- in the replica's set
  var holder: lone Client,   -- whose prefetch has it, unused
  var read: lone Tick,       -- the holder's clock when it asked for the prefetch
  var made: lone Tick,       -- when it was granted, in real time
  var used: lone Tick        -- when a caller got it, in real time
}

one sig World {
  var now: one Tick,         -- real time
  var lowered: lone Tick     -- when the rate was lowered, from two permits to one
}

var sig Unknown in Permit {} -- granted, and unknown to the new master

lone sig DatedAtStart {}     -- the deliberate mistake: a prefetch is dated at its start

fun interval[t: Tick]: lone Tick { t.next.next.next }
fun span[t: Tick]: lone Tick { t.next }

-- The permits that the master counts when a caller's clock shows a time: those whose date is less
-- than an interval ago.
fun taken[at: Tick]: set Permit { { p: Permit | some p.date and lt[at, interval[p.date]] } }

pred free[at: Tick] { no taken[at] or (no World.lowered and lone taken[at]) }

pred fresh[p: Permit] { no p.(date + copy + used + made) and no p.holder and p not in Unknown }

pred same[ps: set Permit] {
  all p: ps | p.date' = p.date and p.copy' = p.copy and p.holder' = p.holder and p.read' = p.read
    and p.made' = p.made and p.used' = p.used
}

pred sameWorld { now' = now and clock' = clock and lowered' = lowered and Unknown' = Unknown }

-- Time passes, or a clock jumps.
pred passes {
  World.now' in World.now + World.now.next and some interval[World.now'.next.next]
  all c: Client | c.clock' in World.now' + World.now'.prev + World.now'.next
  lowered' = lowered and Unknown' = Unknown and same[Permit]
}

pred acquire[c: Client, p: Permit] {
  fresh[p] and free[c.clock]
  p.date' = c.clock and p.made' = World.now and p.used' = World.now and no p.(copy' + read') and no p.holder'
  sameWorld and same[Permit - p]
}

pred prefetch[c: Client, p: Permit] {
  fresh[p] and free[c.clock]
  p.date' = (some DatedAtStart implies c.clock else span[c.clock])
  p.made' = World.now and p.read' = c.clock and p.holder' = c and no p.(copy' + used')
  sameWorld and same[Permit - p]
}

-- A prefetch ends a span after it was asked for, by real time, which a monotonic clock shows, and by
-- the holder's clock.
pred use[p: Permit] {
  some p.holder and lte[World.now, span[p.made]] and lte[p.holder.clock, span[p.read]]
  p.used' = World.now and no p.holder' and p.date' = p.date and p.copy' = p.copy and p.made' = p.made and p.read' = p.read
  sameWorld and same[Permit - p]
}

-- An unused permit returns, also long after its prefetch has ended. If its call is lost, this does not
-- happen.
pred release[p: Permit] {
  some p.holder
  no p.date' and no p.holder' and p.used' = p.used and p.copy' = p.copy and p.made' = p.made and p.read' = p.read
  sameWorld and same[Permit - p]
}

pred replicate {
  copy' = date
  date' = date and holder' = holder and read' = read and made' = made and used' = used and sameWorld
}

-- The master dies. What it has not replicated is lost, also a release.
pred failover {
  date' = copy and Unknown' = Unknown + (date.Tick - copy.Tick)
  copy' = copy and holder' = holder and read' = read and made' = made and used' = used
  now' = now and clock' = clock and lowered' = lowered
}

pred lower {
  no World.lowered and World.lowered' = World.now
  now' = now and clock' = clock and Unknown' = Unknown and same[Permit]
}

fact behaviour {
  World.now = first.next and no World.lowered and no Unknown
  no date and no copy and no holder and no read and no made and no used
  all c: Client | c.clock in World.now + World.now.prev + World.now.next
  always (passes or replicate or failover or lower
    or (some c: Client, p: Permit | acquire[c, p] or prefetch[c, p])
    or (some p: Permit | use[p] or release[p]))
}

pred exact { always all c: Client | c.clock = World.now }

-- What callers got from a time on and before another one, without what the new master cannot know.
fun window[from, to: Tick]: set Permit {
  { p: Permit - Unknown | some p.used and gte[p.used, from] and lt[p.used, to] }
}

-- With exact clocks, no window of an interval holds more than the rate and the grants that a new
-- master does not know.
assert Strict { exact implies always all from: Tick | some interval[from] implies #window[from, interval[from]] =< 2 }

-- Clocks that differ by two ticks shorten the interval by two ticks.
assert StrictWithSkew { always all from: Tick | #window[from, from.next] =< 2 }

-- A window that begins after the prefetches of the higher rate have ended holds at most the lower rate.
assert StrictAfterLowerRate {
  exact implies always all from: Tick | (some World.lowered and gt[from, span[World.lowered]] and some interval[from])
    implies lone window[from, interval[from]]
}

-- A permit counts as taken for less than an interval and a prefetch, and two ticks for clocks that differ.
assert NothingLost {
  always all p: Permit, c: Client | p in taken[c.clock] implies
    (let end = interval[span[p.made.next.next]] | no end or lt[World.now, end])
}

-- Every event can happen, so that no assertion holds because nothing does.
pred Everything {
  eventually some p: Permit | use[p]
  eventually some p: Permit | release[p]
  eventually (failover and some Unknown')
  eventually lower
  not exact
}

run Everything for exactly 2 Client, exactly 3 Permit, exactly 12 Tick, 0 DatedAtStart, 3 Int, 10 steps expect 1
check Strict for exactly 2 Client, exactly 3 Permit, exactly 12 Tick, 0 DatedAtStart, 3 Int, 10 steps expect 0
check StrictWithSkew for exactly 2 Client, exactly 3 Permit, exactly 12 Tick, 0 DatedAtStart, 3 Int, 10 steps expect 0
check StrictAfterLowerRate for exactly 2 Client, exactly 3 Permit, exactly 12 Tick, 0 DatedAtStart, 3 Int, 10 steps expect 0
check NothingLost for exactly 2 Client, exactly 3 Permit, exactly 12 Tick, 0 DatedAtStart, 3 Int, 10 steps expect 0
-- The deliberate mistake is found.
Mistake: check Strict for exactly 2 Client, exactly 3 Permit, exactly 12 Tick, exactly 1 DatedAtStart, 3 Int, 10 steps expect 1
