package oracle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/mod/sumdb/dirhash"
)

const (
	mainClass = "io.github.rratelimiter.oracle.Main"
	toInstall = "install Maven 3 and a JDK 17 or newer (apt-get install maven openjdk-17-jdk-headless)"
)

// versionForm excludes other texts from Maven's arguments and from paths.
var versionForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.-]*$`)

// build compiles the Java program against the release, and returns its classpath. It does nothing
// if the sources have not changed since the last build.
func build(ctx context.Context, version string) (classpath string, err error) {
	if !versionForm.MatchString(version) {
		return "", fmt.Errorf("%q is no version of Redisson", version)
	}
	dir, err := programDir()
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, "target")
	if err := os.MkdirAll(target, 0o755); err != nil {
		return "", err
	}
	// One lock for all releases: Maven's local repository, which every build writes, is not safe for
	// two Mavens at once.
	building := flock.New(filepath.Join(target, "build.lock"))
	if _, err := building.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return "", fmt.Errorf("another build holds %s: %w", building.Path(), err)
	}
	defer func() { err = errors.Join(err, building.Unlock()) }()

	built := filepath.Join(target, version)
	classpath = filepath.Join(built, "classes") + string(filepath.ListSeparator) + filepath.Join(built, "lib", "*")
	sources, err := hashSources(dir)
	if err != nil {
		return "", err
	}
	stamp := filepath.Join(built, "built-from")
	if old, err := os.ReadFile(stamp); err == nil && string(old) == sources {
		return classpath, nil
	}
	if err := os.RemoveAll(built); err != nil {
		return "", err
	}
	if err := compile(ctx, dir, version); err != nil {
		return "", err
	}
	return classpath, os.WriteFile(stamp, []byte(sources), 0o644)
}

func compile(ctx context.Context, dir, version string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("no mvn: %s: %w", toInstall, err)
	}
	cmd := exec.CommandContext(ctx, mvn, "--quiet", "--batch-mode", "-Dredisson.version="+version, "compile")
	cmd.Dir = dir
	var output bytes.Buffer
	cmd.Stdout = &output
	cmd.Stderr = &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building against Redisson %s (%s; Maven needs a repository that has that release): %w\n%s",
			version, toInstall, err, output.Bytes())
	}
	return nil
}

// java returns the java command that Maven uses, too.
func java() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", "java"), nil
	}
	path, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("no java: %s: %w", toInstall, err)
	}
	return path, nil
}

// programDir returns the folder of the Java program.
func programDir() (string, error) {
	_, self, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(self), "..", "..", "tools", "redisson")
	if _, err := os.Stat(filepath.Join(dir, "pom.xml")); err != nil {
		return "", fmt.Errorf("the Java program's sources are not where this package was compiled (is it built with -trimpath?): %w", err)
	}
	return dir, nil
}

// hashSources returns a hash of all files of the build.
func hashSources(dir string) (string, error) {
	sources, err := dirhash.DirFiles(filepath.Join(dir, "src"), "src")
	if err != nil {
		return "", err
	}
	return dirhash.Hash1(append(sources, "pom.xml"), func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, name))
	})
}
