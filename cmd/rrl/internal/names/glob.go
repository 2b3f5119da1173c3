package names

// Match reports whether a name matches a pattern of Redis: * and ? match any characters, [ab], [a-z] and
// [^a] match one character of a set, and a backslash escapes the next character.
func Match(pattern, name string) bool {
	star, end := -1, 0 // of the last star: its place, and the end of its match
	p := 0
	for n := 0; n < len(name); {
		if p < len(pattern) && pattern[p] == '*' {
			star, end = p, n
			p++
			continue
		}
		if length, ok := matchOne(pattern[p:], name[n]); ok {
			p, n = p+length, n+1
			continue
		}
		if star < 0 {
			return false
		}
		// Let the last star match one more.
		end++
		p, n = star+1, end
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches a byte with the beginning of a pattern, whose length it returns.
func matchOne(pattern string, c byte) (length int, ok bool) {
	if pattern == "" {
		return 0, false
	}
	switch {
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '\\' && len(pattern) > 1:
		return 2, pattern[1] == c
	case pattern[0] != '[':
		return 1, pattern[0] == c
	}
	i, not := 1, false
	if i < len(pattern) && pattern[i] == '^' {
		i, not = 2, true
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		low := pattern[i]
		if low == '\\' && i+1 < len(pattern) {
			i++
			low = pattern[i]
		}
		high := low
		if i+2 < len(pattern) && pattern[i+1] == '-' {
			high = pattern[i+2]
			i += 2
		}
		ok = ok || min(low, high) <= c && c <= max(low, high)
	}
	return min(i+1, len(pattern)), ok != not
}
