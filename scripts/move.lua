-- Renames or copies a limiter with all its state. It deletes the old state of the new name, so that the
-- two cannot mix.
--
-- KEYS: 1 to 5 the keys of the limiter   6 to 10 the keys of the new name.
-- ARGV: 1  RENAME or COPY.
--       2  1 to replace a limiter of the new name.
-- Replies 1 if it moved the limiter, 0 if the new name has a limiter that must stay, -1 if no limiter
-- exists, -2 if the server has no COPY.
--@include names
--@include slack
local reply = 1
if ttl == -2 then
  return -1
end
if ARGV[2] ~= '1' and call('EXISTS', KEYS[6]) == 1 then
  return 0
end
if KEYS[1] == KEYS[6] then
  return 1
end
if ARGV[1] == 'COPY' then
  -- In this direction and without REPLACE, COPY changes nothing, since KEYS[1] exists.
  local able = redis.pcall('COPY', KEYS[6], KEYS[1])
  if type(able) == 'table' then
    return string.find(able.err, 'nknown') and -2 or able
  end
end
-- Without values, permits are counted from the sets, even if RENAME is refused.
call('UNLINK', KEYS[7], KEYS[9])
for i = 1, 5 do
  if i > 1 then
    call('UNLINK', KEYS[i + 5])
  end
  if call('EXISTS', KEYS[i]) == 1 then
    if ARGV[1] == 'COPY' then
      call('COPY', KEYS[i], KEYS[i + 5], 'REPLACE')
    else
      call('RENAME', KEYS[i], KEYS[i + 5])
    end
  end
end
--@include outlive
return reply
