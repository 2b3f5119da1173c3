// Package env reads the settings of the suites from the environment: how deep they go, and where
// random calls begin.
package env

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Number returns the number in an environment variable, or the fallback if it is not set. It panics
// if the value is no number.
func Number(name string, fallback int64) int64 {
	return parse(name, fallback, func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) })
}

// Seed returns the seed in an environment variable, or the fallback if it is not set. It panics if
// the value is no number.
func Seed(name string, fallback uint64) uint64 {
	return parse(name, fallback, func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) })
}

// Duration returns the duration in an environment variable, or the fallback if it is not set. It
// panics if the value is no duration.
func Duration(name string, fallback time.Duration) time.Duration {
	return parse(name, fallback, time.ParseDuration)
}

func parse[V any](name string, fallback V, parse func(text string) (V, error)) V {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	value, err := parse(text)
	if err != nil {
		panic(fmt.Sprintf("environment variable %s: %v", name, err))
	}
	return value
}
