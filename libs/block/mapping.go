package block

import (
	"cmp"
	"fmt"
	"slices"
)

// LayoutError names what two layouts must agree on to be mapped, and do not.
type LayoutError struct {
	Field         string
	Local, Remote int
}

func (e *LayoutError) Error() string {
	return fmt.Sprintf("KV layouts cannot be mapped: %s is %d here, %d at the peer", e.Field, e.Local, e.Remote)
}

// Mappable reports, as a *LayoutError, why blocks of a peer's layout cannot be mapped
// to l. Block size, TP, head order and transposition may differ; the model may not.
func (l Layout) Mappable(peer Layout) error {
	for _, f := range []LayoutError{
		{"layers", l.Layers, peer.Layers}, {"KV heads", l.KVHeads, peer.KVHeads},
		{"head dimension", l.HeadDim, peer.HeadDim}, {"element bytes", l.ElemBytes, peer.ElemBytes},
	} {
		if f.Local != f.Remote {
			found := f // f itself would be allocated for every field
			return &found
		}
	}
	return nil
}

// Sources returns, ascending, the ranks of a peer with the given layout that together
// hold each of l's heads once; the peer's own rank is ignored. Where a head is
// replicated, one of its holders is chosen, so that l's replicas use different ones.
// A rank of the peer writes to l exactly if it is among them.
func (l Layout) Sources(peer Layout) ([]int, error) {
	peer.TPRank = 0
	if err := l.valid(peer); err != nil {
		return nil, err
	}
	var ranks []int
	heads, replicas := peer.LocalHeads(), peer.replicas()
	replica := l.TPRank % l.replicas() % replicas
	for head := l.FirstHead(); head < l.FirstHead()+l.LocalHeads(); head++ {
		rank := head/heads*replicas + replica
		if len(ranks) == 0 || ranks[len(ranks)-1] != rank {
			ranks = append(ranks, rank)
		}
	}
	return ranks, nil
}

func (l Layout) valid(peer Layout) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("local %w", err)
	}
	if err := peer.Validate(); err != nil {
		return fmt.Errorf("remote %w", err)
	}
	return l.Mappable(peer)
}

// Copy pairs a run of bytes of local memory with one of a peer's, of equal length.
type Copy struct{ Local, Remote Span }

// Side is one side of a mapping: Blocks[i] holds the positions of a sequence from
// First + i · BlockTokens on.
type Side struct {
	Layout Layout
	Blocks []ID
	First  int
}

// end is the position behind the last that the side's blocks can hold.
func (s Side) end() int { return s.First + len(s.Blocks)*s.Layout.BlockTokens }

// span checks the blocks of the positions [from, to), and tells which they are.
func (s Side) span(from, to int) (first, last int, err error) {
	if from < s.First || to > s.end() {
		return 0, 0, fmt.Errorf("blocks hold the positions %d to %d", s.First, s.end())
	}
	first, last = (from-s.First)/s.Layout.BlockTokens, (to-1-s.First)/s.Layout.BlockTokens
	for i := first; i <= last; i++ {
		if s.Blocks[i] < 0 {
			return 0, 0, fmt.Errorf("block %d has the number %d", i, s.Blocks[i])
		}
	}
	return first, last, nil
}

// Mapping describes how the positions [From, To) get from one side's blocks to the
// other's: from Local to Remote, or, if Read, from Remote to Local. Of unequal TP, the
// heads that both ranks hold are copied; a destination needs all its Sources.
type Mapping struct {
	Local, Remote Side
	From, To      int
	Read          bool
}

// Append appends the copies, in the order of the destination's bytes. No copy crosses
// the border of a block on either side, and within a block those are one that lie together
// on both sides. It allocates only to grow copies, and one order of blocks when the
// destination's numbers do not ascend. Differing models are a *LayoutError.
//
// At most how many copies a block needs, with L layers, H heads, D elements per head, T tokens:
//
//	equal layouts, full block                1
//	unequal TP, full block, both head-major  L · 2
//	unequal block sizes, or part of a block  L · 2 · H on head-major sides; transposed keys L · H · D
//	head-major ↔ token-major                 L · 2 · H · T
//	transposed ↔ not transposed keys         L · H · D · T, each of one element
//
// The last moves the keys element by element: 4,194,304 copies of 2 bytes for 64 tokens of
// 64 layers with 8 heads of 128. It is right, and so slow that computing may be quicker.
func (m Mapping) Append(copies []Copy) ([]Copy, error) {
	if err := m.Local.Layout.valid(m.Remote.Layout); err != nil {
		return copies, err
	}
	if m.From > m.To {
		return copies, fmt.Errorf("map positions %d to %d: they end before they begin", m.From, m.To)
	}
	if m.From == m.To {
		return copies, nil
	}
	first, last, err := m.Local.span(m.From, m.To)
	if err != nil {
		return copies, fmt.Errorf("map positions %d to %d: local %w", m.From, m.To, err)
	}
	farFirst, farLast, err := m.Remote.span(m.From, m.To)
	if err != nil {
		return copies, fmt.Errorf("map positions %d to %d: remote %w", m.From, m.To, err)
	}
	w := mapper{Mapping: m, from: m.Local, to: m.Remote, copies: copies}
	if m.Read {
		w.from, w.to = m.Remote, m.Local
	} else {
		first, last = farFirst, farLast
	}
	if !w.plan() {
		return copies, nil
	}
	if err := w.blocks(first, last); err != nil {
		return copies, fmt.Errorf("map positions %d to %d: %w", m.From, m.To, err)
	}
	return w.copies, nil
}

// blocks maps the destination's blocks first to last in the order of their numbers.
func (w *mapper) blocks(first, last int) error {
	numbers := w.to.Blocks
	ascending := true
	for i := first; i < last; i++ {
		ascending = ascending && numbers[i] < numbers[i+1]
	}
	if ascending {
		for i := first; i <= last; i++ {
			w.block(i)
		}
		return nil
	}
	order := make([]int32, 0, last-first+1)
	for i := first; i <= last; i++ {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(numbers[a], numbers[b]) })
	for i := 1; i < len(order); i++ {
		if numbers[order[i-1]] == numbers[order[i]] {
			return fmt.Errorf("block %d is named twice at the destination", numbers[order[i]])
		}
	}
	for _, i := range order {
		w.block(int(i))
	}
	return nil
}
