// Package spec describes a tokenizer as its file does, whatever the file's format: what
// libs/tokenizer builds from. It holds data and checks nothing; the readers of the formats
// and the builder do. It starts no goroutine.
package spec

// Tokenizer is a whole tokenizer. A sequence within a sequence of steps is flattened.
type Tokenizer struct {
	// BPE or Unigram is the model; the other is nil.
	BPE     *BPE
	Unigram *Unigram
	// Added tokens are matched in the text before the model sees it.
	Added []AddedToken
	// Normalizer, PreTokenizer and Decoder are applied in order.
	Normalizer, PreTokenizer, Decoder []Step
	// Prefix and Suffix are the tokens that stand around a single sequence.
	Prefix, Suffix []uint32
}

// BPE is a byte-pair encoding, with bytes (after a ByteLevel step) or characters as its symbols.
type BPE struct {
	// Vocab has the text of each token at its id, as in the file; "" is an id without one.
	Vocab []string
	// Merges are in the order in which they were learnt, which is their priority. Of a pair that stands there twice, the
	// last place counts, as in the reference.
	Merges []Merge
	// Unk stands for a character without a token; -1: there is none, and such a character is dropped.
	Unk int
	// FuseUnk makes one Unk of a run of them.
	FuseUnk bool
	// ByteFallback writes a character without a token as the tokens <0x00> to <0xFF> of its bytes.
	ByteFallback bool
	// IgnoreMerges takes a piece that is a token as that token, whatever its merges give.
	IgnoreMerges bool
}

// Merge joins two neighbouring tokens to one.
type Merge struct{ Left, Right, Result uint32 }

// Unigram is a unigram language model.
type Unigram struct {
	// Pieces are by token id. Of equal texts, the last one's id and score count, as in the reference.
	Pieces []Piece
	// Unk is the id of the piece for what no other covers; -1: there is none.
	Unk int
	// ByteFallback writes what Unk would cover as the tokens <0x00> to <0xFF> of its bytes.
	ByteFallback bool
}

// Piece is a token of a Unigram and the logarithm of its probability.
type Piece struct {
	Text  string
	Score float64
}

// AddedToken is matched as a whole.
type AddedToken struct {
	ID      uint32
	Content string
	// Special tokens are orders to the model, and left out of decoded text.
	Special bool
	// SingleWord tokens match only where no letter, number or underscore touches them.
	SingleWord bool
	// LStrip and RStrip tokens take the white space before and after them with them.
	LStrip, RStrip bool
	// Normalized tokens are matched in the normalized text, others before.
	Normalized bool
}

// Step is an element of a normalizer, a pre-tokenizer or a decoder, by the names of
// tokenizer.json. The fields are those of its type; others are zero.
type Step struct {
	// Path is where the step stands in its file, for errors: "pre_tokenizer.pretokenizers[1]".
	Path string
	// Type is "NFC", "Replace", "Split", "ByteLevel", "Metaspace", "Fuse", ….
	Type string
	// Pattern is that of Split and Replace, and whether it is a regular expression or literal; of CharDelimiterSplit it
	// is the delimiter.
	Pattern string
	Regex   bool
	// Content is that of Replace, Prepend ("prepend") and Strip of a decoder.
	Content string
	// Behavior is "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext" or "Contiguous"; of Split and Punctuation.
	Behavior string
	// Invert makes the pieces of a Split what the pattern matches.
	Invert bool
	// AddPrefixSpace and UseRegex are those of ByteLevel.
	AddPrefixSpace, UseRegex bool
	// Replacement, PrependScheme ("always", "never", "first") and Split are those of Metaspace.
	Replacement   string
	PrependScheme string
	Split         bool
	// IndividualDigits is that of Digits.
	IndividualDigits bool
	// Left and Right are those of Strip; 0 and 1 in a normalizer, counts (start, stop) in a decoder.
	Left, Right int
	// CleanText, ChineseChars, StripAccents and Lowercase are those of BertNormalizer.
	CleanText, ChineseChars, StripAccents, Lowercase bool
	// Charsmap is that of Precompiled, decoded.
	Charsmap []byte
}
