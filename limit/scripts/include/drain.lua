-- The section drain of policies. drainable@ is the free permits of the policies of its limiter: see drainable
-- in plan.go.
granted = min(drainable@) - leave
if granted > 0 then
  local amount = format('%d', granted)
  --@include take
end
