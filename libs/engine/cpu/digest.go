package cpu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/gguf"
)

// numericsID names everything that decides the bits of a result beside the
// weights. It changes whenever an order, a polynomial or a rounding does.
const numericsID = "cpu-f32-fma16-v1"

// protocolVersion numbers the meaning of the KV format.
const protocolVersion = 1

// digestTensors hashes tensors in the order of their names.
func digestTensors(tensors []gguf.Tensor) string {
	ordered := slices.SortedFunc(slices.Values(tensors), func(a, b gguf.Tensor) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, t := range ordered {
		fmt.Fprintf(h, "%q %d %d %d\n", t.Name, t.Type, t.Dims, len(t.Data))
		h.Write(t.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// kvFormat digests all that makes keys and values mean the same.
func (m *Model) kvFormat() string {
	s := m.shape
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s kv=f32 rope=interleaved base=%b scale=%b eps=%b heads=%d/%d protocol=%d",
		m.digest, numericsID, s.RopeBase, s.RopeScale, s.NormEpsilon, s.Heads, s.KVHeads, protocolVersion))
	return hex.EncodeToString(sum[:16])
}
