package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/hfjson"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/oracle"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

// subject is a model: its file, the inputs for it, and the reference that has it.
type subject struct {
	data []byte
	sets []oracle.Set
	ref  *reference
}

// newSubject finds a model by name, or a variant.
func newSubject(ctx context.Context, modules, name string) (*subject, error) {
	if path, err := testfiles.Path(ctx, name+".json"); err == nil {
		return startSubject(ctx, modules, path, allSets)
	}
	variants, err := oracle.Variants(reader(ctx))
	if err != nil {
		return nil, err
	}
	for _, v := range variants {
		if v.Name == name {
			return variantSubject(ctx, modules, v)
		}
	}
	return nil, fmt.Errorf("no model or variant %q", name)
}

func variantSubject(ctx context.Context, modules string, v oracle.Variant) (*subject, error) {
	dir, err := os.MkdirTemp("", "variant-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, v.Name+".json")
	if err := os.WriteFile(path, v.JSON, 0o644); err != nil {
		return nil, err
	}
	s, err := startSubject(ctx, modules, path, oracle.VariantSets)
	if err != nil {
		return nil, err
	}
	// It has read its file when it answers.
	_, err = s.ref.encode([]string{"x"})
	return s, err
}

func startSubject(ctx context.Context, modules, path string, sets func([]oracle.Set) []oracle.Set) (*subject, error) {
	s := &subject{}
	var err error
	if s.data, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	described, err := hfjson.Decode(s.data)
	if err != nil {
		return nil, err
	}
	texts := corpus.New(func(name string) (string, error) { return testfiles.Path(ctx, name) })
	all, err := oracle.Sets(texts, described)
	if err != nil {
		return nil, err
	}
	s.sets = sets(all)
	s.ref, err = start(ctx, modules, path)
	return s, err
}

func allSets(sets []oracle.Set) []oracle.Set { return sets }

func reader(ctx context.Context) func(model string) ([]byte, error) {
	return func(model string) ([]byte, error) {
		path, err := testfiles.Path(ctx, model+".json")
		if err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	}
}
