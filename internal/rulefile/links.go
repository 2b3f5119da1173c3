package rulefile

import (
	"os"
	"path/filepath"
)

// maxLinks is the largest number of links on the way to a file, as on Linux.
const maxLinks = 40

// watchedDirs returns the directories in which a path may be replaced: the file's own, and that of
// each link on the way. If the path leads to a directory, that is one of them.
func watchedDirs(path string) map[string]bool {
	if absolute, err := filepath.Abs(path); err == nil { // else the working directory is gone
		path = absolute
	}
	var links []string
	file := follow(path, &links)
	dirs := map[string]bool{filepath.Dir(file): true}
	for _, link := range links {
		dirs[filepath.Dir(link)] = true
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		dirs[file] = true
	}
	return dirs
}

// follow returns the path without links, which it collects.
func follow(path string, links *[]string) string {
	dir := filepath.Dir(path)
	if dir == path {
		return path
	}
	path = filepath.Join(follow(dir, links), filepath.Base(path))
	target, err := os.Readlink(path)
	if err != nil || len(*links) == maxLinks {
		return path
	}
	*links = append(*links, path)
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	return follow(target, links)
}
