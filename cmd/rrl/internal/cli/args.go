package cli

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/names"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// named unquotes the arguments of a command, which may be names in the form that rrl prints.
func named(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		unquoted := make([]string, len(args))
		for i, arg := range args {
			unquoted[i] = names.Unquote(arg)
		}
		return run(cmd, unquoted)
	}
}

func noEmptyName(cmd *cobra.Command, args []string) error {
	if slices.Contains(args, "") {
		return fmt.Errorf("%s takes the names of limiters, not an empty one", cmd.CommandPath())
	}
	return nil
}

// oneName requires one argument that is not empty, and nameAndValue two.
var (
	oneName      = cobra.MatchAll(cobra.ExactArgs(1), noEmptyName)
	nameAndValue = cobra.MatchAll(cobra.ExactArgs(2), noEmptyName)
)

func policyFlag(cmd *cobra.Command, policies *[]string, usage string) {
	cmd.Flags().StringArrayVar(policies, "policy", nil, usage+":\n"+policy.Help())
}

func parse(policies []string) ([]names.Given, error) {
	var given []names.Given
	for _, text := range policies {
		g, err := names.ParsePolicy(text)
		if err != nil {
			return nil, err
		}
		given = append(given, g)
	}
	return given, nil
}

func asPolicies(given []names.Given) []limit.Policy {
	policies := make([]limit.Policy, len(given))
	for i, g := range given {
		policies[i] = g.Policy
	}
	return policies
}

func clientID(text string) ([]rratelimiter.Option, error) {
	if text == "" {
		return nil, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--client %q is not the ID of a client: want a UUID as listed by rrl show", text)
	}
	return []rratelimiter.Option{rratelimiter.WithClientID(id)}, nil
}

// agreed returns what a command would do as an error, unless --yes is set.
func agreed(yes bool, what string) error {
	if yes {
		return nil
	}
	return fmt.Errorf("this would %s: use --yes", what)
}
