package fetchcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme_WorkspaceCommand_MakesAllModulesUsable runs the command of the README on a copy of go.work.
func TestReadme_WorkspaceCommand_MakesAllModulesUsable(t *testing.T) {
	const prefix = "export GOWORK=/path/to/clone/go.work && "
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), prefix+"go work use .")
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	text := strings.ReplaceAll(string(work), "./", root+"/")
	text = strings.Replace(text, "\t.\n", "\t"+root+"\n", 1)
	dir := t.TempDir()
	files := map[string]string{
		"go.work": text,
		"go.mod":  "module example.com/app\n\ngo 1.26.0\n",
		"main.go": "package main\n\nimport (\n\t_ \"github.com/rratelimiter/rratelimiter/grpclimit\"\n" +
			"\t_ \"github.com/rratelimiter/rratelimiter/otellimit\"\n\t_ \"github.com/rratelimiter/rratelimiter/rules/rls\"\n" +
			"\t_ \"github.com/rratelimiter/rratelimiter/rules\"\n)\n\nfunc main() {}\n",
	}
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for _, args := range [][]string{{"work", "use", "."}, {"vet", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(dir, "go.work"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
