package ruleset

// matcher finds the rules of a request. It has the conditions of all rules in order, by the first
// segment of their paths.
type matcher struct {
	bySegment map[string][]entry
	others    []entry // any first segment, or none
	size      int
}

type entry struct {
	place     int // among the conditions of all rules
	rule      int
	bans      bool // the rule only bans
	condition *condition
}

// match is a rule of a request, with the condition that the request meets.
type match struct {
	rule      int
	condition *condition
	unknown   error // why it is unknown whether the request meets the condition; nil if it does
	exact     bool  // the request meets it in the spelling of the file
}

// add adds a condition. Rules must be added in order.
func (m *matcher) add(index int, bans bool, c *condition) {
	e := entry{m.size, index, bans, c}
	m.size++
	if len(c.segments) == 0 || c.segments[0] == "" {
		m.others = append(m.others, e)
		return
	}
	if m.bySegment == nil {
		m.bySegment = make(map[string][]entry)
	}
	m.bySegment[c.segments[0]] = append(m.bySegment[c.segments[0]], e)
}

// find returns the rules of a request in order, all of them or only the first. Each rule appears
// once, with the first condition that the request meets. If a condition is on an unknown address, the
// rule decides by its failure mode, unless another condition of it is met. A rule that only bans has no
// failure mode, and does not decide then. Such a rule is not the only one, nor is a rule that the
// request meets in another spelling: those behind it decide too.
func (m *matcher) find(request *Request, segments []string, all bool) []match {
	first, others := m.bySegment[segments[0]], m.others
	var found []match
	var last *match
	for len(first)+len(others) > 0 {
		from := &first
		if len(first) == 0 || len(others) > 0 && others[0].place < first[0].place {
			from = &others
		}
		e := &(*from)[0]
		*from = (*from)[1:]
		sameRule := last != nil && last.rule == e.rule
		switch {
		case last != nil && !sameRule && !all && last.exact:
			return found
		case sameRule && last.unknown == nil && last.exact || !e.condition.matches(request.Hosts, segments):
			continue
		}
		accepts, exact, err := e.condition.accepts(request)
		switch {
		case sameRule && accepts && (exact || last.unknown != nil):
			*last = match{e.rule, e.condition, nil, exact}
		case !sameRule && (accepts || err != nil && !e.bans):
			found = append(found, match{e.rule, e.condition, err, exact})
			last = &found[len(found)-1]
		}
	}
	return found
}
