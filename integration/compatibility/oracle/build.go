package oracle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
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
	unlock, err := lock(ctx, filepath.Join(target, "build.lock"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()

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
	hash := sha256.New()
	add := func(path string) error {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(hash, "%s %d\n%s", filepath.ToSlash(name), len(content), content)
		return err
	}
	if err := add(filepath.Join(dir, "pom.xml")); err != nil {
		return "", err
	}
	err := filepath.WalkDir(filepath.Join(dir, "src"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return add(path)
	})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// lock takes the lock file exclusively, also within this process. The system releases it if the
// process dies.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file.Close, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another build holds %s: %w", path, ctx.Err()), file.Close())
		}
	}
}
