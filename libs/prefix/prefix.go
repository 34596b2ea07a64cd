// Package prefix hashes token prefixes and knows who holds them: a chain over full
// blocks, in which a block's hash stands for its tokens and for all that came before
// them, and an Index of the leading blocks of a chain that each worker has.
//
// The hash is XXH3-64. It routes requests and finds candidates; it proves nothing, so
// whoever shares a block compares the tokens (block.Pool does). All workers and
// processors must compute the same chain, hence no seed is drawn and the token ids
// are hashed in little-endian order on every machine.
//
// The Index believes what it is told: ordering, replays and gaps of the events that
// feed it are their reader's business. The package starts no goroutines.
package prefix

import (
	"encoding/binary"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

const (
	parentBytes = 8
	tokenBytes  = 4
	// bufferTokens is the largest usual block; larger ones are hashed in pieces.
	bufferTokens = 128
)

// Namespace joins what separates caches into one string. Different inputs give
// different strings: the length of each part but the last comes first.
func Namespace(model, lora, salt string) string { return string(namespace(nil, model, lora, salt)) }

func namespace(b []byte, model, lora, salt string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(model)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(lora)))
	b = append(b, model...)
	b = append(b, lora...)
	return append(b, salt...)
}

// Root is where the chain of a namespace starts.
func Root(model, lora, salt string) block.Hash {
	var buffer [256]byte // longer names are rare
	return block.Hash(xxh3.Hash(namespace(buffer[:0], model, lora, salt)))
}

// Next hashes the tokens of a full block onto the hash of the block before it (of the
// root, for the first): XXH3-64 of the parent and the token ids, all little-endian.
// The parent is data, not the seed: a seed makes XXH3 rebuild its secret each time.
// It does not allocate.
func Next(parent block.Hash, tokens []sequence.Token) block.Hash {
	switch {
	case len(tokens) == 16:
		return next16(parent, (*[16]sequence.Token)(tokens))
	case len(tokens) == 32:
		return next32(parent, (*[32]sequence.Token)(tokens))
	case len(tokens) > bufferTokens:
		return nextLong(parent, tokens)
	}
	var buffer [parentBytes + bufferTokens*tokenBytes]byte
	return next(&buffer, parent, tokens)
}

func next(buffer *[parentBytes + bufferTokens*tokenBytes]byte, parent block.Hash, tokens []sequence.Token) block.Hash {
	binary.LittleEndian.PutUint64(buffer[:], uint64(parent))
	n := parentBytes + put(buffer[parentBytes:], tokens)
	return block.Hash(xxh3.Hash(buffer[:n]))
}

func nextLong(parent block.Hash, tokens []sequence.Token) block.Hash {
	var (
		h      xxh3.Hasher
		buffer [bufferTokens * tokenBytes]byte
	)
	binary.LittleEndian.PutUint64(buffer[:], uint64(parent))
	h.Write(buffer[:parentBytes]) // a Hasher's Write never fails
	for len(tokens) > 0 {
		piece := tokens[:min(len(tokens), bufferTokens)]
		h.Write(buffer[:put(buffer[:], piece)])
		tokens = tokens[len(piece):]
	}
	return block.Hash(h.Sum64())
}

// put writes the tokens little-endian and returns the number of bytes. Where memory
// is little-endian already it is one copy, several times as fast as the loop.
func put(dst []byte, tokens []sequence.Token) int {
	n := len(tokens) * tokenBytes
	dst = dst[:n]
	if littleEndian() && n > 0 {
		copy(dst, unsafe.Slice((*byte)(unsafe.Pointer(&tokens[0])), n))
		return n
	}
	for i, t := range tokens {
		binary.LittleEndian.PutUint32(dst[i*tokenBytes:], t)
	}
	return n
}

func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

// Chain appends the hash of each full block of the tokens to dst; a partial block at
// the end has none. blockTokens is at least 1.
func Chain(dst []block.Hash, root block.Hash, tokens []sequence.Token, blockTokens int) []block.Hash {
	var buffer [parentBytes + bufferTokens*tokenBytes]byte
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		switch {
		case blockTokens == 16:
			root = next16(root, (*[16]sequence.Token)(tokens))
		case blockTokens == 32:
			root = next32(root, (*[32]sequence.Token)(tokens))
		case blockTokens > bufferTokens:
			root = nextLong(root, tokens[:blockTokens])
		default:
			root = next(&buffer, root, tokens[:blockTokens])
		}
		dst = append(dst, root)
	}
	return dst
}
