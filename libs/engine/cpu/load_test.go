package cpu

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/gguf"
)

// parts is a model file before it is written.
type parts struct {
	metadata []gguf.Pair
	tensors  []gguf.Tensor
}

func (p *parts) set(key string, value any) {
	for i := range p.metadata {
		if p.metadata[i].Key == key {
			p.metadata[i].Value = value
			return
		}
	}
	p.metadata = append(p.metadata, gguf.Pair{Key: key, Value: value})
}

func (p *parts) unset(key string) {
	for i := range p.metadata {
		if p.metadata[i].Key == key {
			p.metadata = append(p.metadata[:i], p.metadata[i+1:]...)
			return
		}
	}
}

func (p *parts) tensor(name string) *gguf.Tensor {
	for i := range p.tensors {
		if p.tensors[i].Name == name {
			return &p.tensors[i]
		}
	}
	return nil
}

func (p *parts) open(t *testing.T) (*Model, error) {
	t.Helper()
	var b bytes.Buffer
	if err := gguf.Write(&b, p.metadata, p.tensors); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return LoadModel(f)
}

func tinyParts() *parts {
	s := cputest.Tiny()
	return &parts{cputest.Metadata(s), cputest.Tensors(s, 1)}
}

func TestFilesThatDoNotFitAreRefusedByName(t *testing.T) {
	reshape := func(name string, kind gguf.Type, dims ...uint64) func(*parts) {
		return func(p *parts) {
			x := p.tensor(name)
			x.Type, x.Dims = kind, dims
			x.Data = make([]byte, kind.Bytes(x.Elements()))
		}
	}
	set := func(key string, value any) func(*parts) { return func(p *parts) { p.set(key, value) } }
	for _, c := range []struct {
		name  string
		spoil func(*parts)
		says  []string
	}{
		{"architecture", set("general.architecture", "gpt2"), []string{"general.architecture", "gpt2", "llama"}},
		{"no architecture", func(p *parts) { p.unset("general.architecture") }, []string{"general.architecture"}},
		{"no layers", set("llama.block_count", uint32(0)), []string{"llama.block_count", "1 to 1024"}},
		{"absurd layers", set("llama.block_count", uint32(1<<31)), []string{"llama.block_count", "1 to 1024"}},
		{"a layer more", set("llama.block_count", uint32(4)), []string{"blk.3.attn_norm.weight"}},
		{"a layer less", set("llama.block_count", uint32(2)), []string{"blk.2.attn_norm.weight", "2 layers"}},
		{"absurd context", set("llama.context_length", uint64(1)<<60), []string{"llama.context_length"}},
		{"context is text", set("llama.context_length", "many"), []string{"llama.context_length", "integer"}},
		{"width", set("llama.embedding_length", uint32(97)), []string{"llama.embedding_length", "multiple of 32"}},
		{"another width", set("llama.embedding_length", uint32(64)), []string{"output_norm.weight", "[96]", "[64]"}},
		{"heads", set("llama.attention.head_count_kv", uint32(3)), []string{"llama.attention.head_count", "3 KV heads"}},
		{"more KV heads", set("llama.attention.head_count_kv", uint32(8)), []string{"llama.attention.head_count_kv", "1 to 4"}},
		{"head length", set("llama.attention.key_length", uint32(40)), []string{"llama.attention.key_length", "multiple of 32"}},
		{"value length", set("llama.attention.value_length", uint32(64)), []string{"llama.attention.value_length", "want 32"}},
		{"partial rotation", set("llama.rope.dimension_count", uint32(16)), []string{"llama.rope.dimension_count", "want 32"}},
		{"rope scaling", set("llama.rope.scaling.type", "yarn"), []string{"llama.rope.scaling.type", "yarn", "linear"}},
		{"rope base", set("llama.rope.freq_base", float32(-1)), []string{"llama.rope.freq_base"}},
		{"epsilon", set("llama.attention.layer_norm_rms_epsilon", float32(7)), []string{"layer_norm_rms_epsilon", "0 to 1"}},
		{"type", reshape("blk.1.attn_q.weight", gguf.TypeF16, 96, 128), []string{"blk.1.attn_q.weight", "F16", "Q4_1, Q8_0 or F32"}},
		{"norm type", reshape("blk.1.ffn_norm.weight", gguf.TypeF16, 96), []string{"blk.1.ffn_norm.weight", "F16", "want F32"}},
		{"shape", reshape("blk.0.ffn_down.weight", gguf.TypeF32, 96, 160), []string{"blk.0.ffn_down.weight", "[96 160]", "[160 96]"}},
		{"rank", reshape("blk.0.ffn_down.weight", gguf.TypeF32, 160), []string{"blk.0.ffn_down.weight", "[160]", "[160 96]"}},
		{"vocabulary", reshape("token_embd.weight", gguf.TypeQ8_0, 96), []string{"token_embd.weight", "[96]"}},
		{"missing", func(p *parts) { p.tensor("blk.2.attn_v.weight").Name = "blk.2.attn_w.weight" }, []string{"blk.2.attn_v.weight"}},
		{"a bias", func(p *parts) {
			p.tensors = append(p.tensors, gguf.Tensor{Name: "blk.0.attn_q.bias", Dims: []uint64{128}, Data: make([]byte, 512)})
		}, []string{"blk.0.attn_q.bias", "llama"}},
		{"rope factors", func(p *parts) {
			p.tensors = append(p.tensors, gguf.Tensor{Name: "rope_freqs.weight", Dims: []uint64{16}, Data: make([]byte, 64)})
		}, []string{"rope_freqs.weight", "element 0 is 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := tinyParts()
			c.spoil(p)
			m, err := p.open(t)
			if err == nil {
				t.Fatalf("accepted, shape %+v", m.Shape())
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestDigestAndFormatFollowTheWeights(t *testing.T) {
	card := func(change func(*parts)) (digest, format string) {
		p := tinyParts()
		change(p)
		m, err := p.open(t)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		e, err := m.Executor(Options{Model: "x"})
		if err != nil {
			t.Fatal(err)
		}
		return m.Digest(), e.Card().KVFormat
	}
	digest, format := card(func(*parts) {})
	if d, f := card(func(p *parts) { p.tensors[0], p.tensors[1] = p.tensors[1], p.tensors[0] }); d != digest || f != format {
		t.Error("the order of the tensors in the file changes digest or format")
	}
	if d, f := card(func(p *parts) { p.tensor("blk.1.attn_k.weight").Data[5] ^= 1 }); d == digest || f == format {
		t.Error("another weight gives the same digest or format")
	}
	if d, f := card(func(p *parts) { p.set("llama.rope.freq_base", float32(20000)) }); d != digest || f == format {
		t.Error("another rotation must change the format and not the digest")
	}
}

func TestOptionsNameTheFirstThatCannotBe(t *testing.T) {
	m := tiny(t, cputest.Tiny())
	for want, o := range map[string]Options{
		"Model": {}, "BlockTokens is 24": {Model: "x", BlockTokens: 24}, "BlockTokens is 256": {Model: "x", BlockTokens: 256},
		"ContextTokens is 513": {Model: "x", ContextTokens: 513}, "Threads is -1": {Model: "x", Threads: -1},
	} {
		if _, err := m.Executor(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("options %+v: error %v, want one that says %q", o, err, want)
		}
	}
}

// FuzzLoadModel changes one 64-bit word of a good file: whatever loads must have
// weights of the declared shape, and nothing may panic.
func FuzzLoadModel(f *testing.F) {
	s := cputest.Tiny()
	s.Layers, s.VocabTokens = 1, 8
	var b bytes.Buffer
	if err := cputest.Write(&b, s, 1); err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), uint64(0))
	f.Add(uint32(100), uint64(1)<<40)
	f.Fuzz(func(t *testing.T, at uint32, word uint64) {
		data := bytes.Clone(b.Bytes())
		at %= uint32(min(len(data), 4096) - 8)
		binary.LittleEndian.PutUint64(data[at:], word)
		file, err := gguf.Parse(data)
		if err != nil {
			return
		}
		m, err := LoadModel(file)
		if err != nil {
			return
		}
		defer m.Close()
		if got := m.Shape(); m.weights.embedding.Rows != got.VocabTokens || len(m.weights.layers) != got.Layers {
			t.Fatalf("shape %+v with %d embeddings and %d layers", got, m.weights.embedding.Rows, len(m.weights.layers))
		}
	})
}
