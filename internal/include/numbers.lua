-- Locals, as those of names.lua.
-- Sets: ceil floor fmod max min.
local ceil, floor, fmod, max, min = math.ceil, math.floor, math.fmod, math.max, math.min
