package linear

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// searchTimeout is how long porcupine may search for an order of one history.
const searchTimeout = 30 * time.Second

// Explain checks whether a model explains a history. If it does not, report has the longest order
// that was found, and the path of a page with its picture. The result is Unknown if the search took
// too long.
func Explain(t testing.TB, name string, model porcupine.Model, calls []porcupine.Operation) (
	result porcupine.CheckResult, report string) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(model, calls, searchTimeout)
	if result != porcupine.Illegal {
		return result, ""
	}
	dir := filepath.Join(os.TempDir(), "rratelimiter-linear")
	page := filepath.Join(dir, name+".html")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := porcupine.VisualizePath(model, info, page); err != nil {
		t.Fatal(err)
	}
	return result, page + "\n" + longest(model, info, calls)
}

// longest prints the longest order that was found, with the states, and the calls that do not fit.
func longest(model porcupine.Model, info porcupine.LinearizationInfo, calls []porcupine.Operation) string {
	var best []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	var text strings.Builder
	state, fits := model.Init(), make(map[int64]bool)
	for _, call := range best {
		fits[call.Call] = true
		_, state = model.Step(state, call.Input, call.Output)
		fmt.Fprintf(&text, "%4d-%d %s\n      %s\n", call.Call, call.Return, model.DescribeOperation(call.Input, call.Output),
			model.DescribeState(state))
	}
	text.WriteString("These calls do not fit:\n")
	for _, call := range calls {
		if !fits[call.Call] {
			fmt.Fprintf(&text, "%4d-%d %s\n", call.Call, call.Return, model.DescribeOperation(call.Input, call.Output))
		}
	}
	return text.String()
}
