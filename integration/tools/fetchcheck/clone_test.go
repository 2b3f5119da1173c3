package fetchcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
)

// TestReadme_Clone_MakesModulesUsable runs the commands of the README in a new module, for each module
// of this repository.
func TestReadme_Clone_MakesModulesUsable(t *testing.T) {
	const module = "github.com/rratelimiter/rratelimiter"
	readme := golden.Text(t, "../../../README.md")
	_, edit, found := strings.Cut(readme, "```sh\n")
	require.True(t, found)
	edit, _, found = strings.Cut(edit, "\ngo mod tidy\n")
	require.True(t, found)
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	edit = strings.ReplaceAll(edit, "/path/to/clone", root)
	commands, imports := []string{"go mod init example.com/app", edit}, ""
	for _, part := range []string{"/grpclimit", "/otellimit", "/rules"} {
		one := strings.NewReplacer(module+"@", module+part+"@", module+"=", module+part+"=", root, root+part).Replace(edit)
		commands = append(commands, one)
		imports += "\t_ \"" + module + part + "\"\n"
	}
	dir := t.TempDir()
	program := "package main\n\nimport (\n\t_ \"" + module + "\"\n" + imports + ")\n\nfunc main() {}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	for _, command := range append(commands, "go mod tidy", "go vet .") {
		args := strings.Fields(command)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
	}
}
