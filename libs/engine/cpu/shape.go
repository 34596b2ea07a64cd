package cpu

import (
	"fmt"
	"math"

	"github.com/switchyard-llm/switchyard/libs/gguf"
)

// Shape is the size of a model's parts, as its file declares them.
type Shape struct {
	Layers        int
	Width         int // elements of the residual stream
	Hidden        int // elements between the two halves of the feed-forward part
	Heads         int
	KVHeads       int // Heads is a multiple of it
	HeadDim       int
	VocabTokens   int
	ContextTokens int
	RopeBase      float64
	RopeScale     float64 // divides positions; 1 for none
	NormEpsilon   float32
}

// What no model of this architecture exceeds: a hostile file may not make the
// engine allocate without bound.
const (
	maxLayers  = 1 << 10
	maxWidth   = 1 << 17
	maxHidden  = 1 << 19
	maxHeads   = 1 << 10
	maxHeadDim = 1 << 10
	maxVocab   = 1 << 22
	maxContext = 1 << 24
)

// readShape reads the metadata and refuses what this engine cannot compute.
func readShape(f *gguf.File) (Shape, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return Shape{}, err
	}
	if arch != "llama" {
		return Shape{}, fmt.Errorf("metadata \"general.architecture\" is %q, want \"llama\"", arch)
	}
	r := reader{file: f}
	s := Shape{
		Layers:        r.integer("llama.block_count", 1, maxLayers, 1),
		Width:         r.integer("llama.embedding_length", 32, maxWidth, 32),
		Hidden:        r.integer("llama.feed_forward_length", 32, maxHidden, 32),
		Heads:         r.integer("llama.attention.head_count", 1, maxHeads, 1),
		ContextTokens: r.integer("llama.context_length", 1, maxContext, 1),
		NormEpsilon:   float32(r.float("llama.attention.layer_norm_rms_epsilon", 0, 1)),
		RopeBase:      10000,
		RopeScale:     1,
	}
	if r.err != nil {
		return Shape{}, r.err
	}
	s.KVHeads = s.Heads
	if f.Has("llama.attention.head_count_kv") {
		s.KVHeads = r.integer("llama.attention.head_count_kv", 1, s.Heads, 1)
	}
	s.HeadDim = r.headDim(s)
	r.rope(&s)
	if r.err == nil && s.Heads%s.KVHeads != 0 {
		r.err = fmt.Errorf("metadata \"llama.attention.head_count\" is %d, want a multiple of the %d KV heads", s.Heads, s.KVHeads)
	}
	if r.err == nil && s.Heads*s.HeadDim > maxWidth {
		r.err = fmt.Errorf("%d heads of %d elements, want at most %d elements in all", s.Heads, s.HeadDim, maxWidth)
	}
	return s, r.err
}

// headDim is the length of a head's keys, which values and rotation must share.
func (r *reader) headDim(s Shape) int {
	dim := s.Width / s.Heads
	if r.file.Has("llama.attention.key_length") {
		dim = r.integer("llama.attention.key_length", 32, maxHeadDim, 32)
	}
	if r.err == nil && (dim%32 != 0 || dim == 0 || dim > maxHeadDim) {
		r.err = fmt.Errorf("metadata: heads have %d elements, want a multiple of 32 up to %d", dim, maxHeadDim)
	}
	for _, key := range []string{"llama.attention.value_length", "llama.rope.dimension_count"} {
		if r.err == nil && r.file.Has(key) {
			r.integer(key, dim, dim, 1)
		}
	}
	return dim
}

func (r *reader) rope(s *Shape) {
	if r.file.Has("llama.rope.freq_base") {
		s.RopeBase = r.float("llama.rope.freq_base", 1, 1e12)
	}
	kind := "none"
	if r.err == nil && r.file.Has("llama.rope.scaling.type") {
		kind, r.err = r.file.String("llama.rope.scaling.type")
	}
	switch kind {
	case "none":
	case "linear":
		s.RopeScale = r.float("llama.rope.scaling.factor", 1, 1e6)
	default:
		r.err = fmt.Errorf("metadata \"llama.rope.scaling.type\" is %q, want \"none\" or \"linear\"", kind)
	}
}

// reader reads metadata within bounds and keeps the first error.
type reader struct {
	file *gguf.File
	err  error
}

func (r *reader) integer(key string, least, most, multiple int) int {
	if r.err != nil {
		return 0
	}
	n, err := r.file.Uint(key)
	switch {
	case err != nil:
		r.err = err
	case n < uint64(least) || n > uint64(most) || n%uint64(multiple) != 0:
		want := fmt.Sprintf("%d to %d", least, most)
		if least == most {
			want = fmt.Sprint(least)
		}
		if multiple > 1 {
			want += fmt.Sprintf(", a multiple of %d", multiple)
		}
		r.err = fmt.Errorf("metadata %q is %d, want %s", key, n, want)
	default:
		return int(n)
	}
	return 0
}

func (r *reader) float(key string, least, most float64) float64 {
	if r.err != nil {
		return 0
	}
	v, err := r.file.Float(key)
	if err != nil {
		r.err = err
	} else if math.IsNaN(v) || v < least || v > most {
		r.err = fmt.Errorf("metadata %q is %g, want %g to %g", key, v, least, most)
	}
	return v
}
