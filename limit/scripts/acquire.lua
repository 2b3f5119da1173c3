-- Takes permits of all policies of a limiter, or of none.
--
-- script.go makes the script of a limiter from this file and the Lua files of its policies. A file of
-- a policy consists of sections. A section starts at its line "--@ name  in: ... out: ...", which
-- lists the locals that it reads and sets.
--   --@include name  takes in scripts/include/name.lua, one of internal/include, or a section of the same policy.
--   --@each name     takes in the section of each policy that has it, in their order. With two names it is
--                    the first that the policy has.
--   --@lone name     likewise, of a limiter with one policy.
--   --@once name     likewise, and only once for policies of one kind.
--   --@waiting line  is a line or a command of the script for callers that wait, which shares permits with the
--                    waiters of other Clients. It is in no other script.
--   --@from name     at the top of a file: takes the other sections from the file of another policy.
--   --+              continues the lists of a section.
--   @                is the number of the policy: its first key is KEYS[@1], its first argument
--                    ARGV[@1], and its locals end in it.
--   free@@           is free1, free2 and so on.
--   @time, @epoch    are the numbers of these arguments.
--   @last            is the number of the last argument of a policy.
--   @brief           is text1 of a single policy, and {text@@} of several. A table costs the server
--                    a tenth of a call.
-- Sections are lines, not functions, since a closure costs more per call than the lines that it saves.
-- A line "local name = value" is left out if no line below it uses the name.
-- testdata/scripts has scripts as Redis runs them.
--
-- The sections of a policy:
--   read     Reads the state at now and writes nothing. Sets free@, the free permits, below 0 for a
--            debt. Sets most@, the largest number of free permits, and text@, the state's text.
--            The time of the call is in now, and in millis. It is an argument only if a policy reads it.
--   again    If the arguments do not fit the time, replies {1, now}. If the work is too large for one
--            call, it replies {1, now, policy, cursor}. The script is called again, with the
--            arguments for that time and the cursor for that policy.
--   more     The same, in acquire, if the requests want more than is free.
--   credit   Lowers credit. A request is granted only if the requests before it in this call took at most credit.
--            Below 0, none is.
--   lead     Lowers lead and permit, as internal/include/share.lua has them, if the rate is in Redis.
--   hold     Sets holds to false if nothing is to be held for other Clients now.
--   next     Raises next, the microseconds until missed permits are free for a caller that waits. Of the smallest
--            window it sets batch, the permits that come free together, and window, its milliseconds. If all of it
--            comes free at once, it sets ends, the milliseconds until then. It sets drips if permits come free one
--            after another.
--   prefetch Lowers span, the milliseconds in which prefetched permits are used. A policy without it
--            cannot prefetch.
--   settle   Runs after the decision and before any take, also if nothing is granted. Prolongs a state whose
--            key would expire before the time that a denial replies. Redisson's layout takes its permits here.
--   denied   Runs before the others take. beside@ is free permits: see beside in penalty.go.
--   take     Takes granted permits, more than 0, and sets text@. Their number as a text is in amount.
--   place    The same in acquire alone, for permits that requests hold: each has a place of its own.
--   charge   The same in charge, if it differs.
--   expire   Runs before the report of a call that takes permits.
--   flat     Replies to a lone Take, if the limiter has no other policy.
--   function Sets a function of this kind of policies.
--   release  Returns n permits, at most those that are taken. With a receipt it is a refund: the
--            receipt is text@ as the grant left it, and only permits that this grant still takes
--            return. Age is how many milliseconds ago the grant was replied, at least.
--   unit     Runs in release in place of again.
--   return   Returns places, by the arguments behind the last one.
--   renew    Prolongs the leases of places.
--   pause    Begins or ends a pause.
--   drain    Takes what is free but for leave permits.
--   report   Sets report@, which the Go side reads: first text@, then numbers, up to those that
--            determine when want permits are free.
--   peek     Adds to report@ of a call that does not prolong the TTL.
--
-- The text of a state begins with an epoch, a random word of the call that began it. A state begins
-- without taken permits: after its key expired, was evicted or was reset. A refund for another epoch
-- returns no permits. FixedWindow and Calendar have none: their refunds go by the end of the window, or its age.
-- The text of an InFlight is the number of places that the call has removed since their lease had ended.
--
-- If an ACL user may not run a command, the script fails at that command. A policy changes its state
-- with one command, or as its file describes, so that a script can stop anywhere.
--
-- A key expires by the server's clock. The permits of a grant count for as long as the policy
-- requires, also if the caller's clock is ahead, stands still or goes back.
--
-- ARGV: 1  the permits of all requests together.
--       then, if a policy reads it, Unix microseconds, or '' for the server's clock. Times are
--          microseconds, unless they are named as milliseconds. If a clock goes back, time stands still
--          until the clock has caught up. A time before 1970 counts as 1970.
--       then, if a policy reads it, the epoch of a state that begins with this call.
--       then the arguments of the policies. Absent for a single request without flags:
--          flags: d replies all, o keeps the order: behind a denied request none is granted.
--       Absent for a single request:
--          the requests, run-length encoded: '1*200 3*1 ~5*1'. With ~, as many as are free are
--          granted, at most so many.
--          backdate: of callers that wait, how far back their grants may be dated. That is as long as
--          the first has waited and as their calls take, at most 1000000. Else absent or ''. A bucket
--          that was full for that time grants what would have been refilled in it. Otherwise a call
--          that is late by a timer and a round trip would slow the pace.
--       Absent or '' for no prefetch: the permits to prefetch, and its longest duration, milliseconds.
--       Only in the script for callers that wait:
--          the ID of the queue.
--          the milliseconds by which its calls may be late.
--          the permits of its waiters that are not in the call.
--          lead and permit, see internal/include/share.lua.
--
-- If all was granted and flags has no d, replies the text of the policy, or {text, text, ...} of
-- several. If none was granted for now, and there are no flags, replies -1. Else the section flat replies, or:
--   {0, answers, report, report, ...}.
--   {0, answers, report, report, ..., prefetched, span}.
-- prefetched and span are the permits and milliseconds of a prefetch. The script for callers that wait adds five numbers,
-- times in microseconds:
--   1 if other Clients have waiters.
--   for how long what is free is held for others.
--   by how much their calls may be late.
--   how much later than by the reports to ask.
--   how much later than its time the call was dated.
-- answers are those of internal/include/decide.lua, or '*': all granted, or 'n': the only request was not.
--
-- Every script replies {3, policy, text} if text is not a state of the policy. If the policy has
-- several keys, it replies {3, policy, key, field, text}. If the policy has no rate, it replies {2,
-- policy}. The policy is unchanged then.
local backdate = tonumber(ARGV[@last + 3] or '')
--@waiting local waiters, id, late = KEYS[@waiters], ARGV[@last + 6], ARGV[@last + 7] + 0
--@waiting local rest, lead, permit = ARGV[@last + 8] + 0, ARGV[@last + 9] + 0, ARGV[@last + 10] + 0
--@waiting include rivals
--@once function
--@waiting if others then -- whose callers have waited, if these have not
--@waiting   backdate, millis = max(backdate, 10000), floor(now / 1000)
--@waiting end
--@each read
--@each again
local total, free, most, credit = ARGV[1] + 0, min(free@@), min(most@@), 9007199254740992
--@each credit
--@waiting local holds, reach = true, 0
--@waiting each lead
--@waiting each hold
--@waiting include share

-- The usual calls need no decide.lua: one request, or several that are all granted.
local amount, flags, runs = ARGV[1], ARGV[@last + 1], ARGV[@last + 2]
local epoch = ARGV[@epoch]
local granted, answers, above, want, missed = 0, nil, false, 0, nil
--@each more
if total <= free and (total <= credit or not runs and credit >= 0) then
  granted = total
  --@waiting want = 1 -- for the next call
elseif runs or total > most then
  -- Decides the requests: all policies grant a request, or none does.
  local ordered = flags == 'do'
  want, runs = ordered and most or 0, runs or ARGV[1] .. '*1'
  --@include decide
  amount = string.format('%d', granted)
else
  answers, want = 'n', total
end

-- If all requests were granted and many permits are free, prefetches more, which the process grants before the
-- prefetch ends. It takes at most half of the free permits, and never the last eighth of a policy.
local prefetched, span = nil, ARGV[@last + 5]
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  --@each prefetch
  if granted == total and span > 0 then
    prefetched = max(0, min(tonumber(ARGV[@last + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
--@each settle
--@each denied
if granted > 0 then
  --@each take
  --@each place
end

if (not flags or flags == '') and not above and not prefetched then
  if granted == total then
    return @brief
  elseif granted == 0 then
    return -1
  end
end
--@lone flat
--@each expire
--@each report
--@waiting local next, batch, window, ends, drips = 0, nil, 0, 0, false
--@waiting each next
--@waiting include record
--@waiting if not prefetched then
--@waiting   return {0, answers or '*', report@@, others and 1 or 0, held * 1000, slow, lag * 1000, moved}
--@waiting end
--@waiting do
--@waiting   return {0, answers or '*', report@@, prefetched, span, others and 1 or 0, held * 1000, slow, lag * 1000, moved}
--@waiting end
if prefetched then
  return {0, answers or '*', report@@, prefetched, span}
end
return {0, answers or '*', report@@}
