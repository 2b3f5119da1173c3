-- LeakyBucket. ARGV and the text of the key are TokenBucket's: the level is the number of missing
-- permits. The other sections are TokenBucket's.
--@from tokenbucket

--@ ahead  out: ahead@
local ahead@ = 0

--@ due  in: at@ delay interval@ missing@ n refill@  out: delay due
-- Until all permits that were taken before have leaked.
local due = missing@
--@include wait
