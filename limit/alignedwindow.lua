-- FixedWindow with Aligned. The key and the arguments are FixedWindow's. The other sections are
-- FixedWindow's.
--@from fixedwindow

--@ begin  in: left@  out: left@
-- A caller's clock would end the window too early or too late.
do
  local time = call('TIME')
  left@ = ARGV[@2] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[@2]
end
