package rules_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rratelimiter/rratelimiter/rules"
)

// put writes another file and renames it, so that no reader sees half of it.
func put(path, text string) {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
}

// A wrong file is reported and changes nothing.
func ExampleWatch() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rules.yaml")
	put(path, "rules: [{name: a, ban: true}]")
	ctx, end := context.WithCancel(context.Background())
	defer end()

	reports := make(chan error)
	set, err := rules.Watch(ctx, path, rules.OnReload(func(err error) { reports <- err }))
	if err != nil {
		panic(err)
	}
	put(path, "rules: [{name: a, ban: true, limits: 5/s}]")
	_, reason, _ := strings.Cut((<-reports).Error(), "rules.yaml:")
	fmt.Println(reason, set.Len())
	put(path, "rules: []")
	fmt.Println(<-reports, set.Len())
	// Output:
	// 1:24: rules[0].ban: ban and limits: a rule has one of the two 1
	// <nil> 0
}
