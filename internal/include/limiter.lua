-- Reads the configuration. Sets rate, interval, keepAlive, now and:
--   ended     Grants with scores up to ended have expired.
--   valueKey, permitsKey
--             The keys of the rate type; valueAt and permitsAt are their indexes in KEYS.
--   hinted    The hint holds.
-- interval and now are texts, since most calls do not need their numbers. Arithmetic converts a
-- text; a comparison does not.
-- Needs: hint ended. Sets: hinted interval keepAlive ended now permitsAt permitsKey rate valueAt
-- valueKey.
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
local rate, interval, rateType, keepAlive = config[1], config[2], config[3], config[4] or '0'
if not (rate and interval and rateType) then
  return {NO_RATE}
end
local valueAt, permitsAt = 2, 3
if rateType == '1' then
  if not KEYS[5] then
    return {NEEDS_KEYS}
  end
  valueAt, permitsAt = 4, 5
elseif rateType ~= '0' then
  return {CORRUPT, 1, 'type', rateType}
end
local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
local hinted = hint and hint ~= '' and hint == rate .. ' ' .. interval
if not (hinted or #rate < 16 and match(rate, '^%d+$') and match(interval, '^%d+$'))
    or not (keepAlive == '0' or #keepAlive < 16 and match(keepAlive, '^[1-9]%d*$')) then
  -- From 2^53 on, the number can differ from the text.
  if not find(rate, '^%d+$') or (rate + 0 >= 9007199254740992 and rate ~= '9007199254740992') then
    return {CORRUPT, 1, 'rate', rate}
  end
  if not find(interval, '^%d+$') then
    return {CORRUPT, 1, 'interval', interval}
  end
  -- PEXPIRE refuses leading zeros: it would fail after permits are taken.
  if keepAlive ~= '0' and not find(keepAlive, '^[1-9]%d*$') or #keepAlive > 15 then
    return {CORRUPT, 1, 'keepAliveTime', keepAlive}
  end
end
-- + 0 converts a text in half of tonumber's time.
rate = rate + 0
--@include now
if not hinted or not ended or ended == '' then
  ended = now - interval
end
