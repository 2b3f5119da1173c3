package otellimit

import "context"

// RulesReloaded counts a reload of a rules file and whether it failed, for rules.OnReload.
func (t *Telemetry) RulesReloaded(err error) {
	defer survive()
	r := succeeded
	if err != nil {
		r = failed
	}
	t.reloads.Add(context.Background(), 1, t.rules.with(r, noFailure).add...)
}
