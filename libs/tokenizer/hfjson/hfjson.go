// Package hfjson reads a Hugging Face tokenizer.json: the file as data, resolved to ids and
// checked as far as its own references go. It builds no tokenizer (libs/tokenizer does) and
// knows no regular expressions.
//
// What it cannot give exactly is an error that names the place in the file, never left out: a
// type of step or an option that it does not know, dropout, subword prefixes and suffixes. Left
// out on purpose are "truncation" and "padding", which are what the program that wrote the file
// did to its batches, the template for pairs of sequences, and options that only move offsets.
//
// Files are untrusted. Memory stays within a few times the size of the file, nesting within a
// fixed depth. The package starts no goroutine.
package hfjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// Bounds of what a file may hold.
const (
	// maxTokens bounds ids; the largest vocabularies have 2^18.
	maxTokens = 1 << 22
	// maxNesting bounds sequences of steps within each other.
	maxNesting = 16
	version    = "1.0"
)

// file is a tokenizer.json while it is read. Its members come in any order, so those that need
// the vocabulary wait for it.
type file struct {
	out   *spec.Tokenizer
	model model
	added []addedToken
	post  postProcessor
}

// Decode reads a tokenizer.json. The result keeps nothing of data. Errors name the place in the file.
func Decode(data []byte) (*spec.Tokenizer, error) {
	f := file{out: new(spec.Tokenizer)}
	if err := f.read(data); err != nil {
		return nil, err
	}
	vocab, err := f.model.resolve(f.out)
	if err != nil {
		return nil, err
	}
	tokens, err := resolveAdded(f.out, f.added, vocab)
	if err != nil {
		return nil, err
	}
	f.out.Prefix, f.out.Suffix, err = f.post.resolve(tokens)
	return f.out, err
}

func (f *file) read(data []byte) error {
	// A vocabulary finds its own duplicates, many times faster.
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	if err := members(dec, "", func(name string) error { return f.member(dec, name) }); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the end of the object")
	}
	return nil
}

// member reads the value of a member of the file.
func (f *file) member(dec *jsontext.Decoder, name string) (err error) {
	switch name {
	case "model":
		return f.model.read(dec)
	case "added_tokens":
		f.added, err = readAdded(dec)
		return err
	}
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	switch name {
	case "version":
		if string(value) != `"`+version+`"` {
			return fmt.Errorf("version is %s, want %q", clip(value), version)
		}
	case "truncation", "padding": // settings of a run
	case "normalizer":
		f.out.Normalizer, err = steps(name, value, normalizers())
	case "pre_tokenizer":
		f.out.PreTokenizer, err = steps(name, value, preTokenizers())
	case "decoder":
		f.out.Decoder, err = steps(name, value, decoders())
	case "post_processor":
		err = f.post.read(name, value, 0)
	default:
		err = fmt.Errorf("%q is unknown: want the members of a tokenizer.json of version %s", name, version)
	}
	return err
}

// members reads an object and calls member after each name, to read the value.
func members(dec *jsontext.Decoder, path string, member func(name string) error) error {
	if err := open(dec, path, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if seen[name] {
			return fmt.Errorf("%s is there twice", join(path, name))
		}
		seen[name] = true
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// open reads the start of an object or an array.
func open(dec *jsontext.Decoder, path string, want jsontext.Kind) error {
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != want {
		return wrongKind(path, token.Kind(), want)
	}
	return nil
}

func wrongKind(path string, got, want jsontext.Kind) error {
	if path == "" {
		path = "the file"
	}
	return fmt.Errorf("%s is of JSON's kind %s, want %s", path, got, want)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// clip shortens what an error shows of a file.
func clip[T ~[]byte | ~string](text T) string {
	const most = 60
	if len(text) <= most {
		return string(text)
	}
	return string(text[:most]) + "…"
}
