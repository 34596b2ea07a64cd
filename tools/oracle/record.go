package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/oracle"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/testfiles"
)

// record records models by name; "variants" is all variants.
func record(ctx context.Context, o options, models []string) error {
	if len(models) == 0 {
		models = append(testfiles.Models(), oracle.VariantsName)
	}
	for _, model := range models {
		do := recordModel
		if model == oracle.VariantsName {
			do = recordVariants
		}
		if err := do(ctx, o, model); err != nil {
			return fmt.Errorf("%s: %w", model, err)
		}
	}
	return nil
}

func recordModel(ctx context.Context, o options, model string) error {
	s, err := newSubject(ctx, o.modules, model)
	if err != nil {
		return err
	}
	recording, names, err := o.old(model), []string(nil), error(nil)
	for _, set := range s.sets {
		if err = s.ref.set(o, set, set.Name, recording); err != nil {
			return err
		}
		for block := range set.Blocks {
			names = append(names, oracle.BlockName(set.Name, block))
		}
	}
	if err := s.ref.close(); err != nil {
		return err
	}
	return oracle.Write(o.folder, model, library, names, recording)
}

func recordVariants(ctx context.Context, o options, name string) error {
	variants, err := oracle.Variants(reader(ctx))
	if err != nil {
		return err
	}
	recording, names := o.old(name), []string(nil)
	for _, v := range variants {
		added, err := recordVariant(ctx, o, v, recording)
		if err != nil {
			return fmt.Errorf("%s: %w", v.Name, err)
		}
		names = append(names, added...)
	}
	return oracle.Write(o.folder, name, library, names, recording)
}

// recordVariant records a variant and gives the names of its blocks. Some inputs end the reference
// in a panic: their hash is 0.
func recordVariant(ctx context.Context, o options, v oracle.Variant, to oracle.Recording) (names []string, err error) {
	s, err := variantSubject(ctx, o.modules, v)
	if err != nil {
		return nil, err
	}
	for _, set := range s.sets {
		kind := set.Name
		set.Name = oracle.VariantSet(v.Name, kind)
		name := oracle.BlockName(set.Name, 0)
		names = append(names, name)
		err := s.ref.set(o, set, kind, to)
		if !errors.Is(err, errEnded) {
			if err != nil {
				return nil, err
			}
			continue
		}
		fmt.Printf("%s: no answer\n", name)
		to[name] = 0
		s.ref.close() //nolint:errcheck // it has failed
		if s, err = variantSubject(ctx, o.modules, v); err != nil {
			return nil, err
		}
	}
	return names, s.ref.close()
}

// old is what stays as it is if only some sets are recorded.
func (o options) old(model string) oracle.Recording {
	old, err := oracle.Read(o.folder, model)
	if o.sets == "" || err != nil {
		return oracle.Recording{}
	}
	return old
}

// set records a set, unless it is none of those that were named.
func (r *reference) set(o options, set oracle.Set, kind string, to oracle.Recording) (err error) {
	if o.sets != "" && !slices.Contains(strings.Split(o.sets, ","), kind) {
		return nil
	}
	start := time.Now()
	for block := range set.Blocks {
		name := oracle.BlockName(set.Name, block)
		if to[name], err = r.block(set, block); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Printf("%s, %d blocks in %s\n", set.Name, set.Blocks, time.Since(start).Round(time.Millisecond))
	return nil
}

// block asks the reference for a block and gives the hash of its answers.
func (r *reference) block(set oracle.Set, block int) (uint64, error) {
	var hash oracle.Hash
	if set.Texts != nil {
		answers, err := r.encode(set.Texts(block))
		for _, tokens := range answers {
			hash.Tokens(tokens)
		}
		return hash.Sum(), err
	}
	for _, what := range []int{decodeText, decodeAll} {
		answers, err := r.decode(what, set.Tokens(block))
		if err != nil {
			return 0, err
		}
		for _, text := range answers {
			hash.Text(text)
		}
	}
	return hash.Sum(), nil
}
