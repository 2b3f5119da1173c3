-- The server's half of package limit. script.go assembles a script for the policies of a limiter, from parts of this file and, for each
-- policy, from sections of the .lua file of its kind. Parts and sections start at their line "--@ name  in: ...  out: ...", which names
-- what they read and what they set for others; "--+" continues it. testdata/scripts has assembled scripts. Parts are straight code
-- without functions, because a closure on every call costs more than the lines that it saves.
--
-- In a section "@" stands for the number of the policy: KEYS[@] is its key, ARGV[@1] its first argument, and its locals end in
-- it. Its sections are
--   read     reads the state at now. Sets free@, the free permits, below 0 for a debt, most@, the permits that can be free at
--            all, and text@, the text of the state; writes nothing
--   again    replies {1, now} if the arguments do not fit the time, or {1, now, policy, cursor} if the work is larger than one
--            call may do. The script is called again, with the policies' arguments for that time, and the cursor for that policy
--   more     the same, in acquire, after it has decided
--   lease    lowers span, the milliseconds in which leased permits are used, for a policy that can lease
--   settle   runs before the others take, also if nothing is granted
--   take     takes granted permits, more than 0; sets text@
--   release  gives n permits back, at most those that are taken. Mark is nil, or it makes that a refund: it is text@ as the grant left it, and
--            only what is still taken because of that grant comes back
--   tell     sets told@, which the Go side reads: first text@, then numbers; as far as it takes to know when want permits
--            are free
--
-- Epochs. The text of a state begins with an epoch, a random word of the call that began it. A state begins when nothing is taken: after
-- its key expired, was evicted or was reset, or when a window is over. A refund for another epoch gives nothing back.
--
-- Writes. A user without the right for a command (ACL) is refused when the script comes to it. A policy changes its state with
-- one command, or as its file says, so that a script can stop anywhere.
--
-- TTL. A key lives by the server's clock. What a grant takes counts there for as long as the policy says, also if the
-- caller's clock is ahead, stands still or goes back.
--
-- ARGV[1]: Unix microseconds, or '' to read the server's clock. Times are microseconds, or milliseconds where it says so. If a clock
-- goes back, it stands still for callers that have seen it further on.
--
-- Every script replies {3, policy, text} if text cannot be the state of the policy, or {3, policy, key, field, text} if it has
-- several keys, and {2, policy} if it has no rate. That policy is unchanged then.

--@ head  out: call ceil floor fmod format match max millis min now tonumber
-- A call of a local function costs the server less than that of a global one. + 0 makes a number of a text that is one, in half of
-- tonumber's time.
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = now + 0
end
local millis = floor(now / 1000)

--@ acquire  in: credit free letters most runs  out: above answers epoch granted total want
-- Answers requests for permits, in their order: all policies grant one, or none does. Before it, free is the fewest permits
-- that a policy has free, most the fewest that one can have, and credit the fewest that may be taken before another request:
-- a caller behind more waits until they are paid for. Sets granted.
-- ARGV[2] the permits of all requests together
-- ARGV[3] the epoch of a state that begins with this call
-- Behind the arguments of the policies, and absent for a single request without letters:
-- runs     the requests, with equal neighbours merged: '1*200 3*1'
-- letters  d replies all, o keeps the order: behind a request that is not granted none is
-- Replies, without d, with text of the only policy, or an array of the texts of several, if all was granted; without d and r with -1 if
-- none was for now; else
--   {0, now, answers, told, told, ...}, or told alone, of the only policy, if all was granted
-- answers: a letter for each request: g granted, n not now, x more than can ever be; or '*', all granted
local total, epoch, granted, answers, above = ARGV[2] + 0, ARGV[3], 0, nil, false
local want = letters == 'do' and most or 0
if total <= free and (total <= credit or runs == '' and credit >= 0) then
  granted = total
elseif runs ~= '' or total > most then
  answers = {}
  local shut, ordered = false, letters == 'do'
  if runs == '' then
    runs = ARGV[2] .. '*1'
  end
  for text, times in string.gmatch(runs, '(%d+)%*(%d+)') do
    local n, got = tonumber(text), 0
    times = tonumber(times)
    if n > most then
      answers[#answers + 1] = string.rep('x', times)
      above = true
    else
      if not shut and n <= free - granted and granted <= credit then
        got = min(times, floor((free - granted) / n), floor((credit - granted) / n) + 1)
        granted = granted + got * n
        answers[#answers + 1] = string.rep('g', got)
      end
      if got < times then
        answers[#answers + 1] = string.rep('n', times - got)
        want = max(want, n)
        shut = ordered
      end
    end
  end
  answers = table.concat(answers)
end

--@ lease  in: free granted most span total  out: granted leased
-- Behind acquire: if all was granted and much is left, takes more, for the process to hand out before the lease ends: no more
-- than half of what is free, and none of the last eighth of a policy.
-- ARGV[4] the permits
-- ARGV[5] milliseconds; the policies make them fewer
-- Replies as with d, and then the permits that were leased, and for how long.
local leased = 0
if granted == total and span > 0 then
  leased = max(0, min(tonumber(ARGV[4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
  granted = granted + leased
end

--@ charge  out: answers epoch granted want
-- ARGV[2] the permits to take, whether they are free or not
-- ARGV[3] the epoch of a state that begins with this call
-- Replies as peek.
local granted, epoch, answers, want = ARGV[2] + 0, ARGV[3], nil, 1

--@ release  out: n
-- ARGV[2] the permits to give back
-- Behind the arguments of the policies: the marks of a refund, one for each policy.
-- Replies 1
local n = tonumber(ARGV[2])

--@ reserve  out: changed epoch
-- Answers requests for permits at a later moment, in their order, by a single policy that has sections for it: due sets
-- delay, the microseconds until n permits can be had, and book takes them and sets ticket, what cancel needs to know.
-- ARGV[2] the requests, with equal neighbours merged, and the longest delays that they accept: '1*200<0 3*1<5000000'
-- ARGV[3] the epoch of a state that begins with this call
-- Replies {0, now, answers}: for each request, with commas between them, its delay and its ticket; or below 0 the delay that
-- was too long, and nothing is reserved for it.
local epoch = ARGV[3]
local answers, changed = {}, false
for text, times, within in string.gmatch(ARGV[2], '(%d+)%*(%d+)<(%d+)') do
  local n = tonumber(text)
  within = tonumber(within)
  for _ = 1, tonumber(times) do
    local delay, ticket
    --@due
    if delay <= within then
      --@book
      answers[#answers + 1], changed = format('%d ', delay) .. ticket, true
    else
      answers[#answers + 1] = format('%d', -min(delay, 9007199254740992))
    end
  end
end
if changed then
  --@write
end
return {0, format('%d', now), table.concat(answers, ',')}

--@ cancel  out: changed
-- Gives reservations back, as far as nothing was reserved behind them: undo does so for one, and sets changed.
-- ARGV[2] permits and ticket of each, the last reserved first, with commas between them
-- Replies 1
local changed = false
for text in string.gmatch(ARGV[2], '[^,]+') do
  --@undo
end
if changed then
  --@write
end
return 1

--@ plain  in: above granted letters total
-- Ends acquire for callers that need no more. "@" stands for the texts.
if letters ~= 'd' and letters ~= 'do' and not above then
  if granted == total then
    return @
  elseif granted == 0 and letters == '' then
    return -1
  end
end

--@ told  in: granted letters told1 total
-- If all was granted, what the only policy tells is enough, unless the caller does not know the time.
if granted == total and letters == 'd' and ARGV[1] ~= '' then
  return told1
end

--@ reply  in: answers  out: told
-- The end of a script that replies all: told@ of every policy stands behind it.
local told = {0, now, answers or '*'@}

--@ leased  in: leased span told
told[#told + 1], told[#told + 2] = leased, span

--@ return  in: told
return told
