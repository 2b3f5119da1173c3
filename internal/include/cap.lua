-- Needs: dirty rate value. Sets: dirty value.
if value > rate then
  value, dirty = rate, true
end
