package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/oracle"
)

// maxShown bounds how many differences of a block are shown.
const maxShown = 5

// comparison is of our tokenizer with the reference.
type comparison struct {
	ours *tokenizer.Tokenizer
	ref  *reference
}

func compare(ctx context.Context, o options, args []string) error {
	if len(args) < 2 {
		return errors.New("-compare needs a model and blocks or texts")
	}
	s, err := newSubject(ctx, o.modules, args[0])
	if err != nil {
		return err
	}
	c := comparison{ref: s.ref}
	if c.ours, err = tokenizer.FromJSON(s.data); err != nil {
		return err
	}
	for _, arg := range args[1:] {
		if err := c.named(s.sets, arg); err != nil {
			return err
		}
	}
	return s.ref.close()
}

// named compares a block, or all of a set, or a text that is neither.
func (c *comparison) named(sets []oracle.Set, arg string) error {
	for _, set := range sets {
		for block := range set.Blocks {
			name := oracle.BlockName(set.Name, block)
			if arg != name && arg != set.Name {
				continue
			}
			if err := c.block(set, block); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if arg == name {
				return nil
			}
		}
		if arg == set.Name {
			return nil
		}
	}
	return c.texts("text", []string{arg})
}

func (c *comparison) block(set oracle.Set, block int) error {
	name := oracle.BlockName(set.Name, block)
	if set.Texts != nil {
		return c.texts(name, set.Texts(block))
	}
	return c.tokens(name, set.Tokens(block))
}

func (c *comparison) texts(name string, texts []string) error {
	answers, err := c.ref.encode(texts)
	if err != nil {
		return err
	}
	differ := 0
	for i, want := range answers {
		if slices.Equal(c.encode(texts[i]), want) {
			continue
		}
		if differ++; differ <= maxShown {
			if err := c.show(fmt.Sprintf("%s, text %d", name, i), texts[i]); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%s: %d of %d texts differ\n", name, differ, len(texts))
	return nil
}

func (c *comparison) encode(text string) []uint32 {
	return c.ours.Encode(nil, text, tokenizer.WithSpecial)
}

// show makes a text that differs as short as it can and prints it.
func (c *comparison) show(name, text string) error {
	short, err := shorten([]rune(text), func(text []rune) (bool, error) {
		want, err := c.ref.encode([]string{string(text)})
		return err == nil && !slices.Equal(c.encode(string(text)), want[0]), err
	})
	if err != nil {
		return err
	}
	if len(short) == 0 { // only as the bytes that it was
		short = []rune(text)
	}
	want, err := c.ref.encode([]string{string(short)})
	if err != nil {
		return err
	}
	fmt.Printf("%s: %+q\n  ours      %s\n  reference %s\n", name, string(short), c.tokenTexts(c.encode(string(short))), c.tokenTexts(want[0]))
	return nil
}

func (c *comparison) tokenTexts(tokens []uint32) string {
	const most = 40
	var out strings.Builder
	for _, token := range tokens[:min(most, len(tokens))] {
		text, _ := c.ours.Token(token)
		fmt.Fprintf(&out, "%d %+q  ", token, text)
	}
	return fmt.Sprintf("%s(%d)", out.String(), len(tokens))
}

func (c *comparison) tokens(name string, all [][]uint32) error {
	if err := c.decoded(name+" without special tokens", all, decodeText, tokenizer.NoSpecial); err != nil {
		return err
	}
	return c.decoded(name, all, decodeAll, tokenizer.WithSpecial)
}

func (c *comparison) decoded(name string, all [][]uint32, what int, special tokenizer.Special) error {
	answers, err := c.ref.decode(what, all)
	if err != nil {
		return err
	}
	differ := 0
	for i, want := range answers {
		if c.ours.Decode(all[i], special) == want {
			continue
		}
		if differ++; differ <= maxShown {
			if err := c.showDecoded(fmt.Sprintf("%s, tokens %d", name, i), all[i], what, special); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%s: %d of %d differ\n", name, differ, len(all))
	return nil
}

// showDecoded is show for tokens.
func (c *comparison) showDecoded(name string, tokens []uint32, what int, special tokenizer.Special) error {
	short, err := shorten(tokens, func(tokens []uint32) (bool, error) {
		want, err := c.ref.decode(what, [][]uint32{tokens})
		return err == nil && c.ours.Decode(tokens, special) != want[0], err
	})
	if err != nil {
		return err
	}
	want, err := c.ref.decode(what, [][]uint32{short})
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n  ours      %+q\n  reference %+q\n", name, c.tokenTexts(short), c.ours.Decode(short, special), want[0])
	return nil
}
