package luanames

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFind_Scopes_HideDeclaredNames(t *testing.T) {
	for text, want := range map[string][2][]string{
		"local a, b = c, 'd' -- e":                              {{"c"}, {"a", "b"}},
		"if a then local b = 1 else c = b end":                  {{"a", "b", "c"}, nil},
		"for i = 1, #list do use(i) end print(i)":               {{"i", "list", "print", "use"}, nil},
		"while a do local b = b.c end local d = {e = f, [g]=1}": {{"a", "b", "f", "g"}, {"d"}},
		"local function a(b) return b .. c end":                 {{"c"}, {"a"}},
		"function a.b(c) return c:d(1e5) end":                   {{"a"}, nil},
		"repeat local a until done":                             {{"done"}, nil},
		"for _, b in ipairs(KEYS) do do local c end c() end":    {{"c"}, nil},
		"a@ = redis.call('GET', KEYS[@]) or b@":                 {{"a@", "b@"}, nil},
		"if a then b() elseif c then local d end e = d":         {{"a", "b", "c", "d", "e"}, nil},
	} {
		used, declared := Find(text)
		assert.Equal(t, want, [2][]string{used, declared}, text)
	}
}
