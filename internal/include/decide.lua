-- Decides requests one after another: free permits may be granted now, and most at any time. A request
-- behind more than credit granted permits is denied. If ordered, so is each request behind a denied one.
--   answers  A letter for each request: g granted, n not now, x above most, p granted a part. Nothing
--            is free behind a part, so at most one request has it: a space and its permits follow.
--   want     The most permits of a denied request, 1 for one that takes what is free.
--   missed   The permits of the first denied request.
-- Needs: above answers credit free granted missed most ordered runs want.
-- Sets: above answers granted missed want.
answers = {}
local closed, part = false, ''
for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
  local n, got = tonumber(text), 0
  times = tonumber(times)
  if n > most and upTo == '' then
    answers[#answers + 1] = string.rep('x', times)
    above = true
  else
    if not closed and n <= free - granted and granted <= credit then
      got = math.min(times, math.floor((free - granted) / n), math.floor((credit - granted) / n) + 1)
      granted = granted + got * n
      answers[#answers + 1] = string.rep('g', got)
    end
    local rest = free - granted
    if upTo ~= '' and got < times and rest >= 1 and rest < n and granted <= credit then
      answers[#answers + 1], part, got, granted = 'p', string.format(' %d', rest), got + 1, free
    end
    if got < times then
      answers[#answers + 1] = string.rep('n', times - got)
      if not missed then
        missed = upTo == '' and n or 1
      end
      want = math.max(want, upTo == '' and n or 1)
      closed = ordered
    end
  end
end
answers = table.concat(answers) .. part
