-- The section drain of policies. drainable@ is the free permits of the policies of its limiter: see drainable
-- in plan.go.
granted = min(drainable@) - leave
if granted > 0 then
  --@include take
end
