package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// library is the reference: the binding that npm has of Hugging Face's own library, of version 0.22.2.
const library = "@anush008/tokenizers@0.6.0"

//go:embed reference.mjs
var script string

// What a request asks for.
const (
	encode = iota
	decodeAll
	decodeText // without special tokens
)

// reference is a running process that has one model.
type reference struct {
	cmd *exec.Cmd
	in  *bufio.Writer
	out *bufio.Reader
	end io.Closer
}

// install has npm put the library into a folder, if it is not there.
func install(ctx context.Context, folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "@anush008", "tokenizers")); err == nil {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", library)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

func start(ctx context.Context, modules, model string) (*reference, error) {
	cmd := exec.CommandContext(ctx, "node", "--input-type=module", "-e", script, "--", modules, model)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &reference{cmd, bufio.NewWriter(in), bufio.NewReaderSize(out, 1<<20), in}, cmd.Start()
}

func (r *reference) close() error { return errors.Join(r.end.Close(), r.cmd.Wait()) }

// encode gives the tokens of texts. A byte that is no UTF-8 becomes U+FFFD, as in our own rule.
func (r *reference) encode(texts []string) ([][]uint32, error) {
	err := r.send(encode, len(texts), func(i int) {
		text := string([]rune(texts[i]))
		r.number(len(text))
		r.in.WriteString(text) //nolint:errcheck // Flush tells
	})
	if err != nil {
		return nil, err
	}
	out := make([][]uint32, len(texts))
	for i := range out {
		bytes, err := r.receive(4)
		if err != nil {
			return nil, err
		}
		for ; len(bytes) > 0; bytes = bytes[4:] {
			out[i] = append(out[i], binary.LittleEndian.Uint32(bytes))
		}
	}
	return out, nil
}

// decode gives the texts of tokens.
func (r *reference) decode(what int, tokens [][]uint32) ([]string, error) {
	err := r.send(what, len(tokens), func(i int) {
		r.number(len(tokens[i]))
		for _, token := range tokens[i] {
			r.number(int(token))
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([]string, len(tokens))
	for i := range out {
		bytes, err := r.receive(1)
		if err != nil {
			return nil, err
		}
		out[i] = string(bytes)
	}
	return out, nil
}

func (r *reference) number(n int) {
	r.in.Write(binary.LittleEndian.AppendUint32(nil, uint32(n))) //nolint:errcheck // Flush tells
}

func (r *reference) send(what, items int, item func(i int)) error {
	r.number(what)
	r.number(items)
	for i := range items {
		item(i)
	}
	return r.in.Flush()
}

var errEnded = errors.New("the reference has ended")

// receive reads an item, whose length counts units of some bytes.
func (r *reference) receive(unit int) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r.out, n[:]); err != nil {
		return nil, errors.Join(errEnded, err)
	}
	out := make([]byte, unit*int(binary.LittleEndian.Uint32(n[:])))
	_, err := io.ReadFull(r.out, out)
	return out, err
}
