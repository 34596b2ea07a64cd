package gguf

import "fmt"

// Type is the storage type of a tensor's elements, numbered as in the format.
type Type uint32

// The storage types of the format. Quantised types store blocks of elements; the
// numbers that are missing were withdrawn.
const (
	TypeF32    Type = 0
	TypeF16    Type = 1
	TypeQ4_0   Type = 2
	TypeQ4_1   Type = 3
	TypeQ5_0   Type = 6
	TypeQ5_1   Type = 7
	TypeQ8_0   Type = 8
	TypeQ8_1   Type = 9
	TypeQ2K    Type = 10
	TypeQ3K    Type = 11
	TypeQ4K    Type = 12
	TypeQ5K    Type = 13
	TypeQ6K    Type = 14
	TypeQ8K    Type = 15
	TypeIQ2XXS Type = 16
	TypeIQ2XS  Type = 17
	TypeIQ3XXS Type = 18
	TypeIQ1S   Type = 19
	TypeIQ4NL  Type = 20
	TypeIQ3S   Type = 21
	TypeIQ2S   Type = 22
	TypeIQ4XS  Type = 23
	TypeI8     Type = 24
	TypeI16    Type = 25
	TypeI32    Type = 26
	TypeI64    Type = 27
	TypeF64    Type = 28
	TypeIQ1M   Type = 29
	TypeBF16   Type = 30
	TypeTQ1_0  Type = 34
	TypeTQ2_0  Type = 35
	TypeMXFP4  Type = 39
)

type typeInfo struct {
	name          string
	blockElements uint64
	blockBytes    uint64
}

var typeInfos = [...]typeInfo{
	TypeF32: {"F32", 1, 4}, TypeF16: {"F16", 1, 2}, TypeBF16: {"BF16", 1, 2}, TypeF64: {"F64", 1, 8},
	TypeI8: {"I8", 1, 1}, TypeI16: {"I16", 1, 2}, TypeI32: {"I32", 1, 4}, TypeI64: {"I64", 1, 8},
	TypeQ4_0: {"Q4_0", 32, 18}, TypeQ4_1: {"Q4_1", 32, 20}, TypeQ5_0: {"Q5_0", 32, 22}, TypeQ5_1: {"Q5_1", 32, 24},
	TypeQ8_0: {"Q8_0", 32, 34}, TypeQ8_1: {"Q8_1", 32, 36},
	TypeQ2K: {"Q2_K", 256, 84}, TypeQ3K: {"Q3_K", 256, 110}, TypeQ4K: {"Q4_K", 256, 144}, TypeQ5K: {"Q5_K", 256, 176},
	TypeQ6K: {"Q6_K", 256, 210}, TypeQ8K: {"Q8_K", 256, 292},
	TypeIQ2XXS: {"IQ2_XXS", 256, 66}, TypeIQ2XS: {"IQ2_XS", 256, 74}, TypeIQ2S: {"IQ2_S", 256, 82},
	TypeIQ3XXS: {"IQ3_XXS", 256, 98}, TypeIQ3S: {"IQ3_S", 256, 110}, TypeIQ1S: {"IQ1_S", 256, 50}, TypeIQ1M: {"IQ1_M", 256, 56},
	TypeIQ4NL: {"IQ4_NL", 32, 18}, TypeIQ4XS: {"IQ4_XS", 256, 136},
	TypeTQ1_0: {"TQ1_0", 256, 54}, TypeTQ2_0: {"TQ2_0", 256, 66}, TypeMXFP4: {"MXFP4", 32, 17},
}

func (t Type) info() typeInfo {
	if uint64(t) < uint64(len(typeInfos)) {
		return typeInfos[t]
	}
	return typeInfo{}
}

func (t Type) known() bool { return t.info().blockElements != 0 }

// String is the name the format's tools print, or "type N" for an unknown number.
func (t Type) String() string {
	if t.known() {
		return t.info().name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// BlockElements is the number of elements stored as one block: 1 for plain
// types, 0 for an unknown one.
func (t Type) BlockElements() uint64 { return t.info().blockElements }

// BlockBytes is the size of a block, in bytes; 0 for an unknown type.
func (t Type) BlockBytes() uint64 { return t.info().blockBytes }

// Bytes is the size of n elements, a multiple of BlockElements; 0 for an unknown type.
func (t Type) Bytes(n uint64) uint64 {
	if !t.known() {
		return 0
	}
	return n / t.BlockElements() * t.BlockBytes()
}
