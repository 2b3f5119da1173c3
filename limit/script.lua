-- The server's half of package limit. A script is put together for the policies of a limiter, as script.go lists: parts of
-- this file, and between them, for each policy, sections of the .lua file of its kind. Both start at their "--@ name" line.
-- They are straight code and no functions, since a closure made on every call costs more than the lines that it saves.
--
-- In a section "@" stands for the number of the policy: KEYS[@] is its key, ARGV[@1] its first argument, and its locals end in
-- it. Its sections are
--   read     reads the state, as it is now: sets free@, the permits that are free, below 0 where more are taken than there
--            are, and most@, the permits that can be free at all; writes nothing
--   again    where the work is larger than one call may do, or needs other arguments: may do a part of it, and replies
--            {1, now}, or {1, now, policy, cursor}; the script is called again, with the policies' arguments as they are at
--            that time, and the cursor for that policy
--   pages    the same, for all calls but acquire, and more, for acquire, which has decided by then
--   lease    makes span fewer milliseconds: as long as what is leased now may be used, for a policy that can lease
--   settle   runs before the others take, with 0 granted too
--   take     takes granted permits, more than 0
--   late     sets late where they count at a later time than now, since another clock was ahead, or at one that a caller
--            who is told no time (see acquire) does not expect
--   release  gives n permits back, at most those that are taken; of a call at the time dated, where that is not false, or
--            else those that the policy says; where that is more than one call may do, it adds the number of the
--            policy and the permits that are still to be given back to rests, which is {4} or nothing before
--   tell     sets told@, what the Go side reads: first what the key holds, or '' for nothing; then numbers; as far
--            as it takes to say when want permits are free
--
-- ARGV[1]: Unix microseconds, or '' to ask the server's clock. Times are microseconds, or milliseconds where it says so. A
-- clock that goes back stands still for whoever has seen it further on.
--
-- Every script replies {3, policy, text} where text cannot be what the policy's key should hold, or {3, policy, key, field,
-- text} where it has several, and {2, policy} where it has no rate; nothing is changed then.

-- A script has locals for those functions of names (script.go) that it calls, and millis where it reads that.

--@ head
-- + 0 makes a number of a text that is one, in half of tonumber's time.
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = now + 0
end

--@ millis
local millis = floor(now / 1000)

--@ acquire
-- Answers requests for permits, in their order: all policies grant one, or none does. Before it free is the fewest permits
-- that a policy has free, most the fewest that one can have, and credit the fewest that may be taken before another request:
-- who comes behind more waits until they are paid for. Sets granted, and spent, its text, where that is at hand.
-- ARGV[2] the permits of all requests together
-- Behind the arguments of the policies, and absent for a single request without letters:
-- runs     the requests, with equal neighbours told once: '1*200 3*1'
-- letters  d tells all, r tells all where not all is granted, o keeps the order: behind a request that is not granted none is
-- Replies, without d, with the permits left where all were granted, and none late, and without r with -1 where none was for now; else
--   {0, now, answers, told, told, ...}
-- answers: a letter for each request: g granted, n not now, x more than can ever be; or '*', all granted
local total, granted, spent, answers, above, late = ARGV[2] + 0, 0, nil, nil, false, false
local want = letters == 'do' and most or 0
if total <= free and (total <= credit or runs == '' and credit >= 0) then
  granted, spent = total, ARGV[2]
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

--@ lease
-- Behind acquire: where all was granted and much is left, takes more, for the process to hand out before the lease ends: no more
-- than half of what is free, and none of the last eighth of a policy.
-- ARGV[3] the permits
-- ARGV[4] milliseconds; the policies make them fewer
-- Replies as with d, and behind it the permits that were leased, and for how long.
local leased = 0
if granted == total and span > 0 then
  leased = max(0, min(tonumber(ARGV[3]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
  granted, spent = granted + leased, nil
end

--@ charge
-- ARGV[2] the permits to take, whether they are free or not. Replies as peek.
local granted, spent, answers, want = ARGV[2] + 0, ARGV[2], nil, 1

--@ release
-- ARGV[2] the permits to give back
-- ARGV[3] the time at which each policy counts them, or '' to give back whichever
-- Replies 1, or rests
local n, times, rests = tonumber(ARGV[2]), {}, nil
for time in string.gmatch(ARGV[3], '%d+') do
  times[#times + 1] = tonumber(time)
end

--@ reserve
-- Answers requests for permits at a moment to come, in their order, by a single policy that has sections for it: due sets
-- delay, the microseconds until n permits can be had, and book takes them and sets ticket, what cancel needs to know.
-- ARGV[2] the requests, equal neighbours told once, and the longest delays that they accept: '1*200<0 3*1<5000000'
-- Replies {0, now, answers}: for each request, with commas between them, its delay and its ticket; or below 0 the delay that
-- was too long, and nothing is reserved for it.
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

--@ cancel
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

--@ plain
-- Ends acquire where nobody wants to know more than whether.
if letters ~= 'd' and letters ~= 'do' and not above and not late then
  if granted == total then
    return free - granted
  elseif granted == 0 and letters == '' then
    return -1
  end
end

--@ reply
-- The end of a script that tells all, told@ of every policy behind it.
local told = {0, now, answers or '*'@}

--@ leased
told[#told + 1], told[#told + 2] = leased, span

--@ return
return told
