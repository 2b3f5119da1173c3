-- LeakyBucket. ARGV and what the key holds are TokenBucket's: the level is what is missing there. So are the sections that are
-- not here.

--@ ahead
local ahead@ = 0

--@ due
-- Until all that was there before has leaked away.
local due = missing@
--@wait
