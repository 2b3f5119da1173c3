-- If state of this client has a TTL, extends it so that the state does not expire before the
-- configuration.
-- Needs: base slack ttl.
for i = base + 2, base + 5 do
  local life = call('PTTL', KEYS[i])
  if ttl ~= -2 and life >= 0 then
    local least = ttl + 1
    if i - base > 3 then
      least = least + slack
    end
    if ttl < 0 or ttl >= 1e15 then
      call('PERSIST', KEYS[i])
    elseif life < least then
      call('PEXPIRE', KEYS[i], least)
    end
  end
end
