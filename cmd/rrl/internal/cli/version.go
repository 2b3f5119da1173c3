package cli

import "runtime/debug"

// version is set by the linker in the binaries of a release.
var version string

// installed returns the version of the program: that of the release, or what go install recorded.
func installed() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
