-- LeakyBucket. ARGV and the text of the key are TokenBucket's: the level is the number of missing
-- permits. The other sections are TokenBucket's.
--@from tokenbucket

--@ credit  in: credit early@ interval@ missing@  out: credit
-- A waiter gets its permits when all that were taken before have leaked.
if backdate then
  credit = min(credit, missing@ > 0 and -1 or floor(early@ / interval@))
end

--@ next  in: drips missing@ next refill@  out: drips next
next = max(next, missing@ / refill@)
drips = true
