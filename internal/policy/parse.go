package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/notation"
)

// Parse parses a policy in the notation of the tool: its name, its rate, and fields as in a file of
// limits, such as "token_bucket:100/1m,capacity=500". The policy may be invalid.
func Parse(text string) (any, error) {
	name, rest, _ := strings.Cut(text, ":")
	k, ok := Lookup(name)
	if !ok {
		return nil, fmt.Errorf("no policy %q, want one of %s", name, Names())
	}
	rate := Rate{Fields: make(map[string]any)}
	parts := strings.Split(rest, ",")
	if !k.NoRate {
		permits, per, err := notation.ParseRate(parts[0], k.Unit)
		if err != nil {
			return nil, err
		}
		rate.Permits, rate.Interval, rate.Unit = permits, per.Interval, per.Unit
		parts = parts[1:]
	} else if rest != "" && !strings.Contains(parts[0], "=") {
		parts[0] = k.Fields[0].Name + "=" + parts[0]
	}
	for _, part := range parts {
		field, value, _ := strings.Cut(part, "=")
		i := slices.IndexFunc(k.Fields, func(f Field) bool { return f.Name == field })
		if i < 0 {
			return nil, fmt.Errorf("%s has no field %q", name, field)
		}
		var err error
		if rate.Fields[field], err = k.Fields[i].parse(value); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	return k.New(rate), nil
}

// parse parses the value of a field. A Bool is true if it has none.
func (f Field) parse(text string) (any, error) {
	switch f.Type {
	case Bool:
		if text == "" || text == "true" || text == "false" {
			return text != "false", nil
		}
		return nil, fmt.Errorf("%q is not true or false", text)
	case Count:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < f.Min || n > f.Max {
			return nil, fmt.Errorf("%q is not %s", text, f.Want)
		}
		return n, nil
	case Duration:
		return notation.ParseDuration(text)
	case Location:
		if in, ok := LoadLocation(text); ok && text != "" {
			return in, nil
		}
		return nil, fmt.Errorf("no time zone %q, want a place like Europe/Berlin, or UTC", text)
	}
	return nil, fmt.Errorf("%q cannot be read", text)
}

// locations has the results of LoadLocation.
var locations sync.Map

// LoadLocation returns a time zone by its name, which is not Local. Each name has one pointer, so that
// policies are comparable, and a zone is read once.
func LoadLocation(name string) (*time.Location, bool) {
	shared, ok := locations.Load(name)
	if !ok {
		zone, err := time.LoadLocation(name)
		if err != nil || name == "Local" {
			return nil, false
		}
		shared, _ = locations.LoadOrStore(name, zone)
	}
	zone, ok := shared.(*time.Location)
	return zone, ok
}

// Help has an example of each kind, with its fields in brackets if it has a rate without them.
func Help() string {
	values := map[FieldType]string{Count: "=20", Duration: "=1h", Location: "=Europe/Berlin"}
	var lines []string
	for _, k := range Kinds() {
		line, field := k.Name+":100/1m", "[,%s%s]"
		switch {
		case k.NoRate:
			line, field = k.Name+":", "%s%s,"
		case k.Unit:
			line = k.Name + ":1000/day"
		}
		for _, f := range k.Fields {
			line += fmt.Sprintf(field, f.Name, values[f.Type])
		}
		lines = append(lines, strings.TrimSuffix(line, ","))
	}
	return strings.Join(lines, "\n")
}
