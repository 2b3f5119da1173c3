package suite

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Processes(m, func(task []int) error { return json.NewEncoder(os.Stdout).Encode(len(task)) })
}

func TestStart_Task_IsReported(t *testing.T) {
	var n int
	require.NoError(t, Start(t, []int{1, 2}).Report(&n))
	require.Equal(t, 2, n)
	require.Error(t, Start(t, "no list").Report(&n))
}

func TestRun_EachEnd_ClosesInReverseOrder(t *testing.T) {
	for name, test := range map[string]struct {
		fails bool // open
		tests int  // exit code of the tests
		want  int
	}{
		"pass": {false, 0, 0}, "tests fail": {false, 3, 1}, "open fails": {true, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var ended []string
			dir := ""
			code := run(func(s testing.TB) {
				dir = s.TempDir()
				s.Cleanup(func() { ended = append(ended, "first") })
				s.Cleanup(func() { ended = append(ended, "second") })
				require.False(s, test.fails)
			}, func() int { return test.tests })
			require.Equal(t, test.want, code)
			require.Equal(t, []string{"second", "first"}, ended)
			require.NoDirExists(t, dir)
		})
	}
}
