package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/gguf"
)

// Cache is a folder with images of tokenizers, so that a second start need not build them.
type Cache struct {
	// Folder is made if it is not there. Empty: there is no cache.
	Folder string
	// Warn is told of what kept the cache from being used; nothing depends on it. It may be nil.
	Warn func(error)
}

// maxImages is how many images a folder keeps; the oldest go first.
const maxImages = 32

const imageSuffix = ".tokenizer"

// Load returns the tokenizer of a model file that build makes: from its image, if there is one,
// else built, and kept for the next time. A file that was changed has another image.
func (c Cache) Load(path string, build func() (*Tokenizer, error)) (*Tokenizer, error) {
	if c.Folder == "" {
		return build()
	}
	name, err := imageName(path)
	if err != nil {
		return nil, err
	}
	name = filepath.Join(c.Folder, name)
	data, err := readRegular(name)
	if err == nil {
		t, err := fromImage(data)
		if err == nil {
			return t, nil
		}
		c.warn(fmt.Errorf("%s: %w", name, err))
	} else if !errors.Is(err, os.ErrNotExist) {
		c.warn(err)
	}
	t, err := build()
	if err != nil {
		return nil, err
	}
	if err := c.keep(name, t); err != nil {
		c.warn(err)
	}
	return t, nil
}

// Open is Load for the file of a tokenizer itself: a tokenizer.json, or a GGUF file.
func (c Cache) Open(path string) (*Tokenizer, error) {
	t, err := c.Load(path, func() (*Tokenizer, error) {
		if strings.EqualFold(filepath.Ext(path), ".json") {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			return FromJSON(data)
		}
		file, err := gguf.Open(path)
		if err != nil {
			return nil, err
		}
		t, err := FromGGUF(file)
		return t, errors.Join(err, file.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	return t, nil
}

// readRegular reads a file; what is none, such as a pipe, would be waited for.
func readRegular(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return os.ReadFile(name)
}

func (c Cache) warn(err error) {
	if c.Warn != nil {
		c.Warn(fmt.Errorf("tokenizer cache: %w", err))
	}
}

// imageName names an image after the file that it is of, and what would be other if the file
// was: reading the whole file would take longer than reading the image.
func imageName(path string) (string, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(full)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%d\n%d\n%s", imageVersion, full, info.Size(), info.ModTime().UnixNano(), changed(info)))
	return hex.EncodeToString(sum[:16]) + imageSuffix, nil
}

// keep writes an image, which appears whole or not at all.
func (c Cache) keep(name string, t *Tokenizer) error {
	data, ok, err := t.image()
	if err != nil || !ok {
		return err
	}
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.Folder, "*.part")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return c.prune()
}

// prune removes the oldest images where there are too many.
func (c Cache) prune() error {
	entries, err := os.ReadDir(c.Folder)
	if err != nil {
		return err
	}
	var images []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), imageSuffix) {
			images = append(images, info)
		}
	}
	slices.SortFunc(images, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, old := range images[min(len(images), maxImages):] {
		err = errors.Join(err, os.Remove(filepath.Join(c.Folder, old.Name())))
	}
	return err
}
