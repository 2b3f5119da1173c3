package otellimit

import "context"

// RulesReloaded counts a reload of a program's limits, by whether it failed: for what calls back when a file of rules was read.
func (t *Telemetry) RulesReloaded(err error) {
	defer survive()
	r := succeeded
	if err != nil {
		r = failed
	}
	t.reloads.Add(context.Background(), 1, t.rules.with(r, noFailure).add...)
}
