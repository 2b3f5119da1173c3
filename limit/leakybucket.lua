-- LeakyBucket. ARGV and the text of the key are TokenBucket's: the level is what is missing there. The sections that are not here
-- are TokenBucket's.

--@ ahead  out: ahead@
local ahead@ = 0

--@ due  in: at@ delay interval@ missing@ n refill@  out: delay due
-- Until all that was there before has leaked away.
local due = missing@
--@wait
