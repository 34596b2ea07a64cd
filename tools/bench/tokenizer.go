package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// TokenizerConfig says what Tokenizer measures.
type TokenizerConfig struct {
	// Load makes the tokenizer anew, with nothing remembered.
	Load func() (*tokenizer.Tokenizer, error)
	// PieceBytes is the size of what is encoded at once, like a prompt.
	PieceBytes int
	// Cores bounds the cores that one long piece may use.
	Cores int
	// Seconds is how long text that was seen is encoded again.
	Seconds float64
}

// Text is something to encode.
type Text struct {
	Name string
	Text string
	// Whole texts are encoded at once, and only as text that is new.
	Whole bool
}

// Tokenizer measures how fast texts are encoded and decoded, in MB/s of UTF-8. "First" is a text
// for a tokenizer that has encoded nothing yet; "new" its second half, after the first; "seen"
// is the same text over and over.
func Tokenizer(ctx context.Context, cfg TokenizerConfig, texts []Text, report Report) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cfg.Cores))
	for _, text := range texts {
		tok, err := cfg.load()
		if err != nil {
			return err
		}
		m := tokenizerCase{tok: tok, report: func(name string, value float64, unit string) {
			report(Figure{Bench: "tokenizer", Case: text.Name, Name: name, Value: value, Unit: unit})
		}}
		if text.Whole {
			m.whole(text.Text)
			continue
		}
		if err := m.all(ctx, text.Text, cfg); err != nil {
			return err
		}
	}
	return nil
}

// load leaves no garbage to be collected while encoding is measured.
func (c *TokenizerConfig) load() (*tokenizer.Tokenizer, error) {
	tok, err := c.Load()
	runtime.GC()
	return tok, err
}

type tokenizerCase struct {
	tok    *tokenizer.Tokenizer
	tokens []sequence.Token
	report func(name string, value float64, unit string)
}

func (m *tokenizerCase) whole(text string) {
	m.tok.Encode(nil, "warm", tokenizer.NoSpecial)
	start := time.Now()
	m.tokens = m.tok.Encode(m.tokens[:0], text, tokenizer.NoSpecial)
	took := time.Since(start)
	m.report(fmt.Sprintf("encode %d KB", len(text)>>10), took.Seconds()*1e3, "ms")
}

func (m *tokenizerCase) all(ctx context.Context, text string, cfg TokenizerConfig) error {
	pieces := cut(text, cfg.PieceBytes)
	m.report("encode, first", m.rate(pieces), "MB/s")
	fresh, err := cfg.load()
	if err != nil {
		return err
	}
	m.tok = fresh
	half := len(pieces) / 2
	m.rate(pieces[:half])
	m.report("encode, new", m.rate(pieces[half:]), "MB/s")
	best := 0.0
	for end := time.Now().Add(time.Duration(cfg.Seconds * float64(time.Second))); ctx.Err() == nil && (best == 0 || time.Now().Before(end)); {
		best = max(best, m.rate(pieces))
	}
	m.report("encode, seen", best, "MB/s")
	m.tokens = m.tok.Encode(m.tokens[:0], text, tokenizer.NoSpecial)
	m.report("bytes per token", float64(len(text))/float64(len(m.tokens)), "")
	m.report("detokenize", m.detokenize(), "ns/token")
	return ctx.Err()
}

// rate encodes pieces and returns the MB/s.
func (m *tokenizerCase) rate(pieces []string) float64 {
	bytes := 0
	start := time.Now()
	for _, piece := range pieces {
		m.tokens = m.tok.Encode(m.tokens[:0], piece, tokenizer.NoSpecial)
		bytes += len(piece)
	}
	return float64(bytes) / 1e6 / time.Since(start).Seconds()
}

func (m *tokenizerCase) detokenize() float64 {
	d := m.tok.NewDetokenizer(tokenizer.NoSpecial)
	start := time.Now()
	for _, id := range m.tokens {
		d.Push(id)
	}
	return float64(time.Since(start).Nanoseconds()) / float64(len(m.tokens))
}

// cut divides a text between characters.
func cut(text string, size int) (out []string) {
	for len(text) > size {
		at := size
		for at > 1 && !utf8.RuneStart(text[at]) {
			at--
		}
		out, text = append(out, text[:at]), text[at:]
	}
	return append(out, text)
}
