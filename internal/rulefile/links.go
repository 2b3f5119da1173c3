package rulefile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mostLinks is the largest number of links on the way to a file, as on Linux.
const mostLinks = 40

// placesOf returns the directories in which a path may be replaced: the file's own, and that of
// each link on the way.
func placesOf(path string) []string {
	if absolute, err := filepath.Abs(path); err == nil { // else the working directory is gone
		path = absolute
	}
	var places []string
	add := func(place string) {
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	volume := filepath.VolumeName(path)
	at := volume + string(filepath.Separator) // without links
	rest := path[len(volume):]
	for links := 0; ; {
		name, behind, more := strings.Cut(strings.TrimLeft(rest, string(filepath.Separator)), string(filepath.Separator))
		next := filepath.Join(at, name) // ".." is the directory above, since there are no links in at
		target, err := os.Readlink(next)
		switch {
		case err != nil && !more:
			add(at)
			return places
		case err != nil: // no link
			at, rest = next, behind
			continue
		}
		add(at)
		if links++; links > mostLinks {
			return places
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
			target = target[len(filepath.VolumeName(target)):]
		}
		if rest = target; more {
			rest += string(filepath.Separator) + behind
		}
	}
}
