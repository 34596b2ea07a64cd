package timing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Shape is the size of a model's parts, as far as its speed depends on them.
type Shape struct {
	Name    string
	Layers  int
	Hidden  int // elements of the residual stream
	Heads   int // of the queries
	KVHeads int
	HeadDim int // elements of a head's queries and keys
	// ValueDim is the elements of a head's values; 0 is HeadDim.
	ValueDim int
	// LatentDim is, for multi-head latent attention, the elements of a layer that are kept
	// for a token instead of keys and values: the compressed ones and the shared rotary key.
	LatentDim int
	// Parameters are those of the whole model, in billions.
	Parameters float64
	// Active are those that one token needs, in billions; 0 is all. Fewer in a mixture of experts.
	Active float64
	// Experts of a layer, and how many of them one token is sent to; 0 for a dense model.
	Experts, ExpertsUsed int
	// ContextTokens is the longest sequence.
	ContextTokens int
}

// shapes are those of the models' published configurations.
var shapes = []Shape{
	{Name: "llama-3.1-8b", Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, Parameters: 8.03, ContextTokens: 131072},
	{Name: "llama-3.1-70b", Layers: 80, Hidden: 8192, Heads: 64, KVHeads: 8, HeadDim: 128, Parameters: 70.55, ContextTokens: 131072},
	{Name: "llama-3.1-405b", Layers: 126, Hidden: 16384, Heads: 128, KVHeads: 8, HeadDim: 128, Parameters: 405.85, ContextTokens: 131072},
	{Name: "qwen3-8b", Layers: 36, Hidden: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, Parameters: 8.19, ContextTokens: 40960},
	{Name: "qwen3-32b", Layers: 64, Hidden: 5120, Heads: 64, KVHeads: 8, HeadDim: 128, Parameters: 32.76, ContextTokens: 40960},
	{
		Name: "qwen3-235b-a22b", Layers: 94, Hidden: 4096, Heads: 64, KVHeads: 4, HeadDim: 128,
		Parameters: 235.09, Active: 22.19, Experts: 128, ExpertsUsed: 8, ContextTokens: 40960,
	},
	{
		Name: "deepseek-v3", Layers: 61, Hidden: 7168, Heads: 128, KVHeads: 128, HeadDim: 192, ValueDim: 128, LatentDim: 512 + 64,
		Parameters: 671.03, Active: 37.55, Experts: 256, ExpertsUsed: 8, ContextTokens: 163840,
	},
}

// ShapeNamed finds a built-in shape; the error lists their names.
func ShapeNamed(name string) (Shape, error) {
	i := slices.IndexFunc(shapes, func(s Shape) bool { return s.Name == name })
	if i < 0 {
		return Shape{}, fmt.Errorf("is %q, want one of %s", name, strings.Join(ShapeNames(), ", "))
	}
	return shapes[i], nil
}

// ShapeNames lists the built-in shapes.
func ShapeNames() []string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = s.Name
	}
	return names
}

// ServedName is the name under which a simulated model is served where no other is given.
func (s Shape) ServedName() string { return s.Name + "-sim" }

// Numerics is how weights, keys and values are kept.
type Numerics string

const (
	// BF16 keeps all in 2 bytes.
	BF16 Numerics = "bf16"
	// FP8 keeps weights, keys and values in 1 byte, and multiplies at the rate of that type.
	FP8 Numerics = "fp8"
)

// elementBytes is the size of a weight, key or value.
var elementBytes = map[Numerics]int{BF16: 2, FP8: 1}

// NumericsNames lists what Numerics can be.
func NumericsNames() []string {
	var names []string
	for n := range elementBytes {
		names = append(names, string(n))
	}
	return slices.Sorted(slices.Values(names))
}

// Validate says what was expected.
func (n Numerics) Validate() error {
	if elementBytes[n] == 0 {
		return fmt.Errorf("is %q, want one of %s", string(n), strings.Join(NumericsNames(), ", "))
	}
	return nil
}

// KVBytes is the size of the keys and values of one token over all layers and ranks:
// 2·layers·KV heads·head dimension·bytes, or layers·latent dimension·bytes.
func (s Shape) KVBytes(n Numerics) int {
	if s.LatentDim > 0 {
		return s.Layers * s.LatentDim * elementBytes[n]
	}
	return s.Layers * s.KVHeads * (s.HeadDim + s.valueDim()) * elementBytes[n]
}

func (s Shape) valueDim() int {
	if s.ValueDim == 0 {
		return s.HeadDim
	}
	return s.ValueDim
}

func (s Shape) active() float64 {
	if s.Active == 0 {
		return s.Parameters
	}
	return s.Active
}

// weightsRead is how many weights a pass over n tokens reads, in billions: all of a dense
// model. Of a mixture of experts it is the common part and the experts that any of the tokens is
// sent to, if the router spreads them evenly: 1 − (1 − used/experts)^n of them.
func (s Shape) weightsRead(n int) float64 {
	if s.Experts == 0 {
		return s.Parameters
	}
	used := float64(s.ExpertsUsed) / float64(s.Experts)
	inExperts := (s.Parameters - s.active()) / (1 - used)
	return s.Parameters - inExperts*pow(1-used, n)
}

// GPU is one device.
type GPU struct {
	Name string
	// Memory bandwidth in TB/s; dense multiplication in TFLOP/s by the type of its operands.
	TBPerSecond float64
	TFLOPs      map[Numerics]float64
}

// gpus are those of the vendor's data sheets.
var gpus = map[string]GPU{
	"a100": {"a100", 2.039, map[Numerics]float64{BF16: 312, FP8: 312}}, // 8-bit weights are multiplied as 16-bit ones
	"h100": {"h100", 3.35, map[Numerics]float64{BF16: 989, FP8: 1978}},
	"h200": {"h200", 4.8, map[Numerics]float64{BF16: 989, FP8: 1978}},
	"b200": {"b200", 7.7, map[Numerics]float64{BF16: 2250, FP8: 4500}},
}

// GPUNamed finds a built-in GPU; the error lists their names.
func GPUNamed(name string) (GPU, error) {
	g, ok := gpus[name]
	if !ok {
		return GPU{}, fmt.Errorf("is %q, want one of %s", name, strings.Join(GPUNames(), ", "))
	}
	return g, nil
}

// GPUNames lists the built-in GPUs.
func GPUNames() []string { return slices.Sorted(maps.Keys(gpus)) }
