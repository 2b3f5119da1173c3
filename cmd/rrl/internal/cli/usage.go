package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the number of columns of the help.
const helpWidth = "100"

// wrapHelp makes the help of root and its commands fit into helpWidth. The texts of commands fit as they
// are.
func wrapHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped "+helpWidth))
}

// help is cobra's command, but rejects a word that is no command.
func help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil {
				err = onlyCommands(cmd, rest)
			}
			if err != nil {
				return err
			}
			return cmd.Help()
		},
	}
}

// onlyCommands rejects the arguments of a command that has only commands of its own.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	path := cmd.CommandPath()
	return fmt.Errorf("%s has no command %q%s; see %s --help", path, args[0], closest(cmd, args[0], ""), path)
}

// closest suggests a command of cmd for a word that is none, or returns "".
func closest(cmd *cobra.Command, word, prefix string) string {
	cmd.SuggestionsMinimumDistance = 2
	names := cmd.SuggestionsFor(word)
	if len(names) == 0 {
		return ""
	}
	best := max(0, slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, word) }))
	return fmt.Sprintf(" (did you mean %s%s?)", prefix, names[best])
}

// flagError words an error of pflag as other errors of the tool.
func flagError(cmd *cobra.Command, err error) error {
	path := cmd.CommandPath()
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		flags := new(cobra.Command) // cobra suggests commands only
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		})
		name := unknown.GetSpecifiedName()
		return fmt.Errorf("%s has no flag --%s%s; see %s --help; a name that begins with - follows --", path, name,
			closest(flags, name, "--"), path)
	case errors.As(err, &unknown):
		return fmt.Errorf("%s has no flag -%s; see %s --help; a name that begins with - follows --", path,
			unknown.GetSpecifiedShortnames(), path)
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s %q: want a %s; see %s --help", invalid.GetFlag().Name, invalid.GetValue(),
			wanted(invalid.GetFlag().Value.Type()), path)
	case errors.As(err, &missing):
		return fmt.Errorf("--%s needs a value; see %s --help", missing.GetFlag().Name, path)
	}
	return fmt.Errorf("%w; see %s --help", err, path)
}

// wanted describes the values of a type of flags.
func wanted(kind string) string {
	switch kind {
	case "duration":
		return "duration such as 500ms, 10s or 1m"
	case "int", "int64":
		return "whole number"
	case "float64":
		return "number"
	case "bool":
		return "value true or false"
	}
	return kind
}

// takes requires a number of arguments, which what describes.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		n := len(args)
		if least <= n && n <= most {
			return nil
		}
		got := "none"
		if n > 0 {
			got = strconv.Itoa(n)
		}
		return fmt.Errorf("%s takes %s, got %s; see %s --help", cmd.CommandPath(), what, got, cmd.CommandPath())
	}
}

// oneName requires one argument that is not empty.
var oneName = cobra.MatchAll(takes(1, 1, "the name of one limiter"), noEmptyName)
