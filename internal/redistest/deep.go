package redistest

import "os"

// Deep returns the size of a random test: quick in daily runs, and deep if the environment has DEEP, as
// in make test-deep.
func Deep(quick, deep int) int {
	if os.Getenv("DEEP") == "" {
		return quick
	}
	return deep
}
