-- The scripts of package limit. script.go assembles a script for the policies of a limiter. It
-- consists of parts of this file and, for each policy, of sections of the .lua file of its kind.
-- Parts and sections start at their line "--@ name  in: ...  out: ...". That line names the locals
-- that they read, and those that they set for others. "--+" continues it. testdata/scripts has
-- assembled scripts. Parts are code without functions, because a closure on every call costs more
-- than the lines that it saves.
--
-- In a section "@" stands for the number of the policy: KEYS[@] is its key, ARGV[@1] its first
-- argument, and its locals end in it. The sections of a policy:
--   read     Reads the state at now and writes nothing. Sets free@, the free permits, below 0 for a
--            debt. Sets most@, the largest number of free permits, and text@, the state's text.
--   again    If the arguments do not fit the time, replies {1, now}. If the work is too large for
--            one call, it replies {1, now, policy, cursor}. The script is called again, with the
--            arguments for that time and the cursor for that policy.
--   more     The same, in acquire, after it has decided.
--   lease    Lowers span, the milliseconds in which leased permits are used, if it can lease.
--   settle   Runs before the others take, also if nothing is granted.
--   take     Takes granted permits, more than 0, and sets text@.
--   release  Returns n permits, at most those that are taken. With mark it is a refund: mark is
--            text@ as the grant left it, and only permits that this grant still takes return.
--   report   Sets report@, which the Go side reads: first text@, then numbers, up to those that
--            determine when want permits are free.
--
-- Epochs. The text of a state begins with an epoch, a random word of the call that began it. A
-- state begins without taken permits: after its key expired, was evicted or was reset, or when a
-- window has ended. A refund for another epoch returns no permits.
--
-- Writes. If an ACL user may not run a command, the script fails at that command. A policy changes
-- its state with one command, or as its file describes, so that a script can stop anywhere.
--
-- TTL. A key expires by the server's clock. The permits of a grant count for as long as the policy
-- requires, also if the caller's clock is ahead, stands still or goes back.
--
-- ARGV[1]: Unix microseconds, or '' to read the server's clock. Times are microseconds, unless they
-- are named as milliseconds. If a clock goes back, time stands still until the clock has caught up.
-- A time before 1970 is the begin of 1970.
--
-- Every script replies {3, policy, text} if text is not a state of the policy. If the policy has
-- several keys, it replies {3, policy, key, field, text}. If the policy has no rate, it replies {2,
-- policy}. The policy is unchanged then.

--@ head  out: call ceil floor fmod format match max millis min now tonumber
-- A call of a local function costs the server less than that of a global one. + 0 converts a text
-- in half of tonumber's time.
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis = floor(now / 1000)

--@ acquire  in: credit flags free most runs  out: above answers epoch granted total want
-- Decides requests for permits, in their order: all policies grant a request, or none does. Its
-- inputs are minimums over all policies. free is the number of free permits, and most the number
-- that a policy can ever have. credit is the number of permits that may be taken before another
-- request: a caller behind more waits until they are paid for. Sets granted.
-- ARGV[2] the permits of all requests together.
-- ARGV[3] the epoch of a state that begins with this call.
-- After the arguments of the policies, and absent for a single request without flags:
--   runs     The requests, run-length encoded: '1*200 3*1 ~5*1'. With ~, as many as are free are
--            granted, at most so many.
--   flags    d replies all, o keeps the order: behind a denied request none is granted.
-- If all was granted and flags has no d, replies {text, text, ...}, those of the policies. If none
-- was granted for now, and there are no flags, replies -1. Else:
--   {0, answers, report, report, ...}
-- answers has a letter for each request: g granted, p granted in part, n not now, x above the most.
-- Only one request can have p; ' ' and its granted permits are at the end. '*' is all granted.
local total, epoch, granted, answers, above = ARGV[2] + 0, ARGV[3], 0, nil, false
local want = flags == 'do' and most or 0
if total <= free and (total <= credit or runs == '' and credit >= 0) then
  granted = total
elseif runs ~= '' or total > most then
  answers = {}
  local closed, ordered, part = false, flags == 'do', ''
  if runs == '' then
    runs = ARGV[2] .. '*1'
  end
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    local n, got = tonumber(text), 0
    times = tonumber(times)
    if n > most and upTo == '' then
      answers[#answers + 1] = string.rep('x', times)
      above = true
    else
      if not closed and n <= free - granted and granted <= credit then
        got = min(times, floor((free - granted) / n), floor((credit - granted) / n) + 1)
        granted = granted + got * n
        answers[#answers + 1] = string.rep('g', got)
      end
      local rest = free - granted
      if upTo ~= '' and got < times and rest >= 1 and rest < n and granted <= credit then
        answers[#answers + 1], part, got, granted = 'p', format(' %d', rest), got + 1, free
      end
      if got < times then
        answers[#answers + 1] = string.rep('n', times - got)
        want = max(want, upTo == '' and n or 1)
        closed = ordered
      end
    end
  end
  answers = table.concat(answers) .. part
end

--@ lease  in: free granted most span total  out: granted leased
-- Follows acquire. If all requests were granted and many permits are free, takes more, which the
-- process grants before the lease ends. A lease takes at most half of the free permits, and never
-- the last eighth of a policy.
-- ARGV[4] the permits
-- ARGV[5] milliseconds; policies may shorten them
-- Replies as with d. The leased permits and the duration of the lease follow.
local leased = 0
if granted == total and span > 0 then
  leased = max(0, min(tonumber(ARGV[4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
  granted = granted + leased
end

--@ charge  out: answers epoch granted want
-- Takes permits, whether they are free or not.
-- ARGV[2] the permits.
-- ARGV[3] the epoch of a state that begins with this call.
-- Replies as peek.
local granted, epoch, answers, want = ARGV[2] + 0, ARGV[3], nil, 1

--@ release  out: n
-- ARGV[2] the permits to return.
-- After the arguments of the policies: the marks of a refund, one for each policy.
-- Replies 1
local n = tonumber(ARGV[2])

--@ reserve  in: report@  out: changed epoch
-- Decides reservations, in their order, of a single policy that has the sections for them. due sets
-- delay, the microseconds until n permits are free. book takes them and sets receipt, which names
-- the reservation in cancel.
-- ARGV[2] the requests, run-length encoded, with the longest delays that they accept:
--         '1*200<0 3*1<5000000'.
-- ARGV[3] the epoch of a state that begins with this call.
-- ARGV[4] 'o' if no request may overtake one before it, or ''.
-- Replies {0, answers}: for each request its delay and its receipt, separated by commas.
-- If the delay was too long, it is negative and nothing is reserved.
-- With 'o' that is the last answer, and the report of the policy follows.
local epoch, ordered = ARGV[3], ARGV[4] == 'o'
local answers, changed, closed = {}, false, false
for text, times, within in string.gmatch(ARGV[2], '(%d+)%*(%d+)<(%d+)') do
  local n = tonumber(text)
  within = tonumber(within)
  for _ = 1, tonumber(times) do
    if closed then
      break
    end
    local delay, receipt
    --@include due
    if delay <= within then
      --@include book
      answers[#answers + 1], changed = format('%d ', delay) .. receipt, true
    else
      answers[#answers + 1], closed = format('%d', -min(delay, 9007199254740992)), ordered
    end
  end
end
if changed then
  --@include write
end
if not ordered then
  return {0, table.concat(answers, ',')}
end
--@include report
return {0, table.concat(answers, ','), report@}

--@ cancel  out: changed
-- Cancels reservations, except for permits that were reserved after them. undo cancels one, and
-- sets changed.
-- ARGV[2] permits and receipt of each, the last reserved first, separated by commas
-- Replies 1
local changed = false
for text in string.gmatch(ARGV[2], '[^,]+') do
  --@include undo
end
if changed then
  --@include write
end
return 1

--@ brief  in: above flags granted total
-- Ends acquire for callers that need no more. "@" is replaced by the texts.
if flags ~= 'd' and flags ~= 'do' and not above then
  if granted == total then
    return {@}
  elseif granted == 0 and flags == '' then
    return -1
  end
end

--@ reply  in: answers
-- Ends a script that replies all. "@" is replaced by the reports of the policies, and in lease by
-- the leased permits and the duration of the lease.
return {0, answers or '*', @}
