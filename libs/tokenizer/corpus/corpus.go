// Package corpus makes texts to measure and test tokenizers with: the same ones on every machine
// and with every version of Go, whose random numbers may change. It is not for programs. It starts
// no goroutine.
package corpus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Texts is the material that texts are made of. It is safe for concurrent use.
type Texts struct {
	files func(name string) (path string, err error)

	english, code, languages func() (string, error)
	chinese                  func() (words, error)
}

// New gives texts out of files, which it reads when they are needed; package testfiles has them.
func New(files func(name string) (path string, err error)) *Texts {
	t := &Texts{files: files}
	t.english = sync.OnceValues(t.readEnglish)
	t.code = sync.OnceValues(t.readCode)
	t.chinese = sync.OnceValues(t.readChinese)
	t.languages = sync.OnceValues(t.readLanguages)
	return t
}

// English is prose, of a novel of 1.2 MB. A longer text begins it again, as those of the other functions do.
func (t *Texts) English(size int) (string, error) { return cycled(t.english, size) }

// Code is a program with its comments, of 9 MB.
func (t *Texts) Code(size int) (string, error) { return cycled(t.code, size) }

// Languages is prose in some 500 languages and all their scripts, with their names: 8 MB.
func (t *Texts) Languages(size int) (string, error) { return cycled(t.languages, size) }

// CJK is Chinese words, as often as they are in Chinese, with punctuation. It has no end.
func (t *Texts) CJK(size int) (string, error) {
	w, err := t.chinese()
	if err != nil {
		return "", fmt.Errorf("chinese words: %w", err)
	}
	return w.text(size), nil
}

func cycled(read func() (string, error), size int) (string, error) {
	text, err := read()
	if err != nil {
		return "", err
	}
	return Cut(strings.Repeat(text, size/len(text)+1), size), nil
}

// Cut gives the start of a text, of no more than a number of bytes, that ends with a character.
func Cut(text string, size int) string {
	if size >= len(text) {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

func (t *Texts) read(name string) (string, error) {
	path, err := t.files(name)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		err = errors.New("the file is empty")
	}
	return string(data), err
}

// readEnglish reads the chapters of a novel, a JSON object each.
func (t *Texts) readEnglish() (string, error) {
	data, err := t.read("english.jsons")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for dec := jsontext.NewDecoder(bytes.NewBufferString(data)); ; {
		var chapter struct{ Text string }
		err := json.UnmarshalDecode(dec, &chapter, json.MatchCaseInsensitiveNames(true))
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			return "", fmt.Errorf("english.jsons: %w", err)
		}
		out.WriteString(chapter.Text)
		out.WriteString("\n\n")
	}
}

// readCode leaves out the start, which is lists of names.
func (t *Texts) readCode() (string, error) {
	data, err := t.read("code.js")
	if err != nil {
		return "", err
	}
	return data[len(data)/2:] + data[:len(data)/2], nil
}

// readLanguages takes the markup out of the file.
func (t *Texts) readLanguages() (string, error) {
	data, err := t.read("languages.html")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.Grow(len(data))
	for len(data) > 0 {
		text, rest, _ := strings.Cut(data, "<")
		_, data, _ = strings.Cut(rest, ">")
		// The indentation of the markup is no text.
		for line := range strings.Lines(text) {
			out.WriteString(strings.TrimLeft(line, " \n"))
		}
		if strings.TrimSpace(text) != "" {
			out.WriteByte('\n')
		}
	}
	return out.String(), nil
}

// readChinese reads lines of a word, its frequency and its part of speech.
func (t *Texts) readChinese() (w words, err error) {
	data, err := t.read("chinese.txt")
	if err != nil {
		return w, err
	}
	for line := range strings.Lines(data) {
		word, rest, _ := strings.Cut(line, " ")
		frequency, _, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(frequency)
		if err != nil {
			return w, fmt.Errorf("%q: %w", line, err)
		}
		w.add(word, n)
	}
	return w, nil
}
