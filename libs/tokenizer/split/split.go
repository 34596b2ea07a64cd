// Package split cuts text into the pieces that a tokenizer's model sees, as the
// pre-tokenizer of its file says.
//
// Every pattern, whether written as a regular expression or built in, becomes a
// deterministic automaton when the file is loaded, so text is read once and patterns from
// strangers cannot run wild. Of regular expressions it knows what pre-tokenizers use:
// classes, properties, groups, repetitions (also lazy and possessive), case folding of
// groups, and looks at the next character; anything else is an error when it is loaded.
// The first alternative that leads to a match wins, as in Oniguruma.
//
// It does not change text. A Splitter is immutable and safe for concurrent use; a Cursor
// belongs to one goroutine. The package starts no goroutine.
package split

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/chars"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// Splitter cuts text into pieces.
type Splitter struct {
	levels  []level
	borders []borders
	ascii   asciiBorders
	cuts    bool // there are borders
	plain   bool // one level, each piece of which is a match or what is between two
}

// level cuts each piece of the level before it.
type level struct {
	a        *automaton
	behavior behavior
	invert   bool
}

type behavior uint8

const (
	isolated behavior = iota
	removed
	mergedWithPrevious
	mergedWithNext
	contiguous
)

const maxLevels = 8

// gpt2 is the pattern of a ByteLevel step.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// New builds the splitter of a pre-tokenizer. Metaspace steps split at blanks, which stand
// for their marks. Errors name the step.
func New(steps []spec.Step) (*Splitter, error) {
	s := &Splitter{}
	for i := range steps {
		if err := s.add(&steps[i]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", steps[i].Path, steps[i].Type, err)
		}
	}
	s.noteBorders()
	return s, nil
}

func (s *Splitter) add(step *spec.Step) error {
	switch step.Type {
	case "Split":
		if !step.Regex {
			return s.pattern(regexp.QuoteMeta(step.Pattern), step.Behavior, step.Invert)
		}
		return s.pattern(step.Pattern, step.Behavior, step.Invert)
	case "ByteLevel":
		if !step.UseRegex {
			return nil
		}
		return s.pattern(gpt2, "Isolated", false)
	case "Metaspace":
		if !step.Split {
			return nil
		}
		return s.pattern(" ", "MergedWithNext", false)
	case "CharDelimiterSplit":
		return s.pattern(regexp.QuoteMeta(step.Pattern), "Removed", false)
	case "Digits":
		if step.IndividualDigits {
			return s.level(one(chars.Numeric()), "Isolated", false)
		}
		return s.level(many(chars.Numeric()), "Isolated", false)
	case "Punctuation":
		return s.level(one(chars.Punctuation()), step.Behavior, false)
	case "WhitespaceSplit":
		return s.level(many(chars.WhiteSpace()), "Removed", false)
	case "Whitespace":
		word, space := set(chars.Word()), set(chars.WhiteSpace())
		other := append(slices.Clone(word), space...).normal().complement()
		return s.level(&node{op: opAlternate, subs: []*node{many(word), many(other)}}, "Removed", true)
	case "BertPreTokenizer":
		if err := s.level(many(chars.WhiteSpace()), "Removed", false); err != nil {
			return err
		}
		return s.level(one(chars.Punctuation()), "Isolated", false)
	}
	return errors.New("this type is not supported, want Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit or BertPreTokenizer")
}

func one(s set) *node { return &node{op: opSet, set: s} }

func many(s set) *node { return &node{op: opRepeat, subs: []*node{one(s)}, min: 1, max: -1} }

func (s *Splitter) pattern(pattern, how string, invert bool) error {
	root, err := parse(pattern)
	if err != nil {
		return err
	}
	return s.level(root, how, invert)
}

func (s *Splitter) level(root *node, how string, invert bool) (err error) {
	if len(s.levels) == maxLevels {
		return fmt.Errorf("more than %d steps split", maxLevels)
	}
	l := level{invert: invert}
	known := []string{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"} // in the order of behavior
	at := slices.Index(known, how)
	if at < 0 {
		return fmt.Errorf("behavior is %q, want one of %s", how, strings.Join(known, ", "))
	}
	l.behavior = behavior(at)
	if l.a, err = build(root); err != nil {
		return err
	}
	s.append(l)
	return nil
}

func (s *Splitter) append(l level) {
	s.levels = append(s.levels, l)
	s.borders = append(s.borders, l.a.borders())
	s.plain = len(s.levels) == 1 && l.behavior == isolated
}

// Splits reports whether there is anything to cut at.
func (s *Splitter) Splits() bool { return len(s.levels) > 0 }

// Cursor is a place in a text that is split. The zero value is its beginning.
type Cursor struct {
	pieces  [maxLevels]piece // the current one of each level
	pending [maxLevels]span  // of each level: a match that was found behind the current piece
}

type piece struct {
	end  int
	keep bool
}

type span struct{ start, end int }

// Next returns the end of the piece that starts at byte at of a text, and whether the
// piece is kept. Text is valid UTF-8; at is below its length, and 0 or the end before.
func (s *Splitter) Next(text string, at int, c *Cursor) (end int, keep bool) {
	if len(s.levels) == 0 {
		return len(text), true
	}
	return s.next(text, at, c, len(s.levels)-1)
}

func (s *Splitter) next(text string, at int, c *Cursor, n int) (end int, keep bool) {
	if n > 0 {
		outer := &c.pieces[n-1]
		if outer.end <= at { // or was left behind with a border
			outer.end, outer.keep = s.next(text, at, c, n-1)
		}
		if !outer.keep {
			return outer.end, false
		}
		text = text[:outer.end]
	}
	return s.levels[n].next(text, at, &c.pending[n])
}

// next returns the end of the piece at a byte: of matches and what is between them,
// joined or left out as the behavior says.
func (l *level) next(text string, at int, pending *span) (end int, keep bool) {
	end, matched := l.item(text, at, pending)
	keep = true
	switch l.behavior {
	case isolated:
	case removed:
		keep = !matched
	case mergedWithPrevious:
		if !matched {
			end = l.join(text, end, true, pending)
		}
	case mergedWithNext:
		if matched {
			end = l.join(text, end, false, pending)
		}
	case contiguous:
		for next := end; ; end = next {
			if next = l.join(text, end, matched, pending); next == end {
				break
			}
		}
	}
	return end, keep
}

// join returns the end of the item that starts at a byte if it is a match, or is none, as wanted;
// else its start.
func (l *level) join(text string, at int, matched bool, pending *span) int {
	if at == len(text) {
		return at
	}
	before := *pending
	if end, is := l.item(text, at, pending); is == matched {
		return end
	}
	*pending = before
	return at
}

// item returns the end of the match that starts at a byte, or else of what is before the next.
func (l *level) item(text string, at int, pending *span) (end int, matched bool) {
	if pending.start == at && pending.end > at {
		return pending.end, !l.invert
	}
	if end = l.a.match(text, at); end >= 0 {
		return end, !l.invert
	}
	for at < len(text) {
		_, n := utf8.DecodeRuneInString(text[at:])
		at += n
		if at == len(text) {
			break
		}
		if end = l.a.match(text, at); end >= 0 {
			*pending = span{at, end}
			break
		}
	}
	return at, l.invert
}
