package names

// Match says whether a name is one that a pattern of Redis means: * and ? stand for others, [ab], [a-z] and [^a] for one of some, and
// a backslash takes what is behind it as it is.
func Match(pattern, name string) bool {
	star, mark := -1, 0
	p := 0
	for n := 0; n < len(name); {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, n
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
		// The last star takes one more.
		mark++
		p, n = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches a byte with the beginning of a pattern, and says how long that is.
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
