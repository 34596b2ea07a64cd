package block_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// value is what the test keeps in one element; the head is the model's number.
func value(layer int, keys bool, head, position, element int) []byte {
	x := uint64(layer)<<40 | uint64(head)<<32 | uint64(position)<<16 | uint64(element)<<1
	if keys {
		x |= 1
	}
	x = (x + 1) * 0x9e3779b97f4a7c15
	return binary.LittleEndian.AppendUint64(nil, x^x>>29)
}

// put writes the positions [from, to) into a pool, element by element.
func put(pool []byte, s block.Side, from, to int, heads func(int) bool) {
	for i, id := range s.Blocks {
		eachElement(s.Layout, func(layer int, keys bool, head, token, element int) {
			position := s.First + i*s.Layout.BlockTokens + token
			head += s.Layout.FirstHead()
			if position < from || position >= to || !heads(head) {
				return
			}
			at := int(id)*s.Layout.BlockBytes() + elementOffset(s.Layout, layer, keys, head-s.Layout.FirstHead(), token, element)
			copy(pool[at:][:s.Layout.ElemBytes], value(layer, keys, head, position, element))
		})
	}
}

// randomSide has blocks that hold [from, to) and some more, in an order of its own.
func randomSide(r *rand.Rand, l block.Layout, from, to int) block.Side {
	s := block.Side{Layout: l, First: r.IntN(from + 1)}
	n := l.Blocks(to-s.First) + r.IntN(2)
	for _, id := range r.Perm(n + r.IntN(3))[:n] {
		s.Blocks = append(s.Blocks, block.ID(id))
	}
	if r.IntN(2) == 0 {
		slices.Sort(s.Blocks)
	}
	return s
}

func pool(r *rand.Rand, s block.Side) []byte {
	p := make([]byte, (len(s.Blocks)+3)*s.Layout.BlockBytes())
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func apply(m block.Mapping, copies []block.Copy, local, remote []byte) {
	for _, c := range copies {
		to, from := remote[c.Remote.Offset:][:c.Remote.Bytes], local[c.Local.Offset:][:c.Local.Bytes]
		if m.Read {
			to, from = from, to
		}
		copy(to, from)
	}
}

// checkOrder: copies ascend at the destination, stay within blocks, and none could
// have been a part of the one before.
func checkOrder(m block.Mapping, copies []block.Copy) error {
	end, before := 0, block.Copy{Remote: block.Span{Offset: -1}}
	for _, c := range copies {
		to := c.Remote
		if m.Read {
			to = c.Local
		}
		switch {
		case c.Local.Bytes != c.Remote.Bytes || c.Local.Bytes <= 0:
			return fmt.Errorf("lengths of %+v", c)
		case to.Offset < end:
			return fmt.Errorf("%+v begins before %d", c, end)
		case crosses(c.Local, m.Local.Layout) || crosses(c.Remote, m.Remote.Layout):
			return fmt.Errorf("%+v crosses a block", c)
		}
		one := block.Copy{
			Local:  block.Span{Offset: before.Local.Offset, Bytes: before.Local.Bytes + c.Local.Bytes},
			Remote: block.Span{Offset: before.Remote.Offset, Bytes: before.Remote.Bytes + c.Remote.Bytes},
		}
		if before.Local.Offset+before.Local.Bytes == c.Local.Offset && before.Remote.Offset+before.Remote.Bytes == c.Remote.Offset &&
			!crosses(one.Local, m.Local.Layout) && !crosses(one.Remote, m.Remote.Layout) {
			return fmt.Errorf("%+v and %+v are one", before, c)
		}
		end, before = to.Offset+to.Bytes, c
	}
	return nil
}

func crosses(s block.Span, l block.Layout) bool {
	return s.Offset/l.BlockBytes() != (s.Offset+s.Bytes-1)/l.BlockBytes()
}

// One rank of a peer gives what both hold, and touches nothing else.
func TestCopiesLandWhereTheReferenceSays(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	unequal := 0
	rounds := 6000
	if testing.Short() {
		rounds = 1000
	}
	for i := range rounds {
		model := randomModel(r)
		from := r.IntN(20)
		m := block.Mapping{From: from, To: from + r.IntN(20), Read: r.IntN(2) == 0}
		m.Local = randomSide(r, randomLayout(r, model), m.From, m.To)
		m.Remote = randomSide(r, randomLayout(r, model), m.From, m.To)
		if i%4 == 0 {
			m.Remote.Layout = m.Local.Layout
			m.Remote = randomSide(r, m.Local.Layout, m.From, m.To)
		}
		local, remote := pool(r, m.Local), pool(r, m.Remote)
		source, sourcePool, target, targetPool := m.Local, local, m.Remote, remote
		if m.Read {
			source, sourcePool, target, targetPool = target, targetPool, source, sourcePool
		}
		put(sourcePool, source, 0, 1<<15, func(int) bool { return true })
		want := bytes.Clone(targetPool)
		held := func(head int) bool {
			return head >= source.Layout.FirstHead() && head < source.Layout.FirstHead()+source.Layout.LocalHeads()
		}
		put(want, target, m.From, m.To, held)
		copies, err := m.Append(nil)
		if err == nil {
			err = checkOrder(m, copies)
		}
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		apply(m, copies, local, remote)
		if !bytes.Equal(targetPool, want) {
			t.Fatalf("%+v: wrong bytes by %+v", m, copies)
		}
		if len(copies) > 0 && source.Layout != target.Layout {
			unequal++
		}
	}
	if unequal < rounds/3 {
		t.Errorf("only %d mappings of unequal layouts moved anything", unequal)
	}
}

// All sources together fill a destination, whatever the ranks on either side.
func TestSourcesTogetherHoldEveryHeadOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 1500 {
		model := randomModel(r)
		to, peer := randomLayout(r, model), randomLayout(r, model)
		m := block.Mapping{From: 3, To: 3 + r.IntN(12)}
		m.Remote = randomSide(r, to, m.From, m.To)
		target := pool(r, m.Remote)
		want := bytes.Clone(target)
		put(want, m.Remote, m.From, m.To, func(int) bool { return true })
		ranks, err := to.Sources(peer)
		if err != nil {
			t.Fatal(err)
		}
		moved := 0
		for _, rank := range ranks {
			peer.TPRank = rank
			m.Local = randomSide(r, peer, m.From, m.To)
			source := pool(r, m.Local)
			put(source, m.Local, 0, 1<<15, func(int) bool { return true })
			copies, err := m.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			apply(m, copies, source, target)
			for _, c := range copies {
				moved += c.Local.Bytes
			}
		}
		if !bytes.Equal(target, want) || moved != (m.To-m.From)*to.RowBytes() {
			t.Fatalf("%+v from ranks %v of %+v: %d bytes moved, want %d", to, ranks, peer, moved, (m.To-m.From)*to.RowBytes())
		}
	}
}

func TestReplicasReadFromDifferentReplicas(t *testing.T) {
	l := block.Layout{BlockTokens: 4, Layers: 1, KVHeads: 2, HeadDim: 4, ElemBytes: 2}
	for _, c := range []struct {
		size, rank, peer int
		want             []int
	}{
		{1, 0, 1, []int{0}}, {1, 0, 2, []int{0, 1}}, {2, 1, 1, []int{0}}, {2, 1, 2, []int{1}},
		{8, 5, 8, []int{5}}, {8, 7, 4, []int{3}}, {8, 6, 4, []int{2}}, {4, 3, 8, []int{5}}, {1, 0, 8, []int{0, 4}}, {8, 3, 2, []int{0}},
	} {
		l.TPSize, l.TPRank = c.size, c.rank
		peer := l
		peer.TPSize, peer.TPRank = c.peer, 0
		if got, err := l.Sources(peer); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, %v", c, got, err)
		}
	}
}

func TestDifferentModelsAreNamed(t *testing.T) {
	l := block.Layout{BlockTokens: 4, Layers: 2, KVHeads: 2, HeadDim: 4, ElemBytes: 2}
	for field, change := range map[string]func(*block.Layout){
		"layers":         func(l *block.Layout) { l.Layers += 5 },
		"KV heads":       func(l *block.Layout) { l.KVHeads += 5 },
		"head dimension": func(l *block.Layout) { l.HeadDim += 5 },
		"element bytes":  func(l *block.Layout) { l.ElemBytes += 5 },
	} {
		other := l
		change(&other)
		m := block.Mapping{Local: block.Side{Layout: l, Blocks: []block.ID{0}}, Remote: block.Side{Layout: other, Blocks: []block.ID{0}}, To: 1}
		_, err := m.Append(nil)
		var got *block.LayoutError
		if !errors.As(err, &got) || got.Field != field || got.Remote != got.Local+5 || !strings.Contains(err.Error(), field+" is") {
			t.Errorf("%s: got %v", field, err)
		}
		if _, err := l.Sources(other); !errors.As(err, &got) {
			t.Errorf("%s: sources: got %v", field, err)
		}
	}
}

func TestBadMappingsAreRefused(t *testing.T) {
	l := block.Layout{BlockTokens: 4, Layers: 1, KVHeads: 1, HeadDim: 4, ElemBytes: 2}
	side := func(first int, ids ...block.ID) block.Side { return block.Side{Layout: l, Blocks: ids, First: first} }
	bad := l
	bad.TPRank = 1
	for want, m := range map[string]block.Mapping{
		"end before they begin":                   {Local: side(0, 0), Remote: side(0, 0), From: 2, To: 1},
		"local blocks hold the positions 0 to 4":  {Local: side(0, 0), Remote: side(0, 0, 1), To: 5},
		"remote blocks hold the positions 3 to 7": {Local: side(0, 0), Remote: side(3, 0), From: 2, To: 4},
		"local block 1 has the number -2":         {Local: side(0, 0, -2), Remote: side(0, 0, 1), To: 8},
		"block 3 is named twice":                  {Local: side(0, 0, 0), Remote: side(0, 3, 3), To: 8},
		"remote KV layout: TP rank is 1":          {Local: side(0, 0), Remote: block.Side{Layout: bad, Blocks: []block.ID{0}}, To: 1},
	} {
		if copies, err := m.Append(nil); err == nil || !strings.Contains(err.Error(), want) || len(copies) > 0 {
			t.Errorf("got %v, %v, want %q", copies, err, want)
		}
	}
}

func TestEqualLayoutsNeedOneRunForAFullBlock(t *testing.T) {
	l := block.Layout{BlockTokens: 16, Layers: 30, KVHeads: 3, HeadDim: 64, ElemBytes: 4, KeysTransposed: true}
	m := block.Mapping{Local: block.Side{Layout: l, Blocks: []block.ID{4, 5, 6}}, Remote: block.Side{Layout: l, Blocks: []block.ID{9, 8, 7}}, To: 48}
	l.TPSize = 1
	m.Remote.Layout = l
	n := l.BlockBytes()
	want := []block.Copy{{}, {Local: block.Span{Offset: 6 * n, Bytes: n}, Remote: block.Span{Offset: 7 * n, Bytes: n}},
		{Local: block.Span{Offset: 5 * n, Bytes: n}, Remote: block.Span{Offset: 8 * n, Bytes: n}},
		{Local: block.Span{Offset: 4 * n, Bytes: n}, Remote: block.Span{Offset: 9 * n, Bytes: n}}}
	if got, err := m.Append(make([]block.Copy, 1)); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// The figures of Append's comment. The end of one head's run may meet the next one's.
func TestCopiesOfABlockAreAsManyAsDocumented(t *testing.T) {
	l := block.Layout{BlockTokens: 8, Layers: 3, KVHeads: 4, HeadDim: 16, ElemBytes: 2}
	for name, c := range map[string]struct {
		change func(local, remote *block.Layout)
		tokens int
		want   int
	}{
		"equal":             {func(_, _ *block.Layout) {}, 8, 1},
		"part":              {func(_, _ *block.Layout) {}, 7, 3 * 2 * 4},
		"part, transposed":  {func(a, b *block.Layout) { a.KeysTransposed, b.KeysTransposed = true, true }, 7, 3*4*16 + 3*4},
		"TP":                {func(_, b *block.Layout) { b.TPSize = 2 }, 8, 3 * 2},
		"other block size":  {func(a, _ *block.Layout) { a.BlockTokens = 16 }, 8, 3 * 2 * 4},
		"token-major":       {func(a, _ *block.Layout) { a.TokenMajor = true }, 8, 3 * 2 * 4 * 8},
		"token-major, TP":   {func(a, b *block.Layout) { a.TokenMajor, b.TokenMajor, b.TPSize = true, true, 2 }, 8, 3 * 2 * 8},
		"transposed to not": {func(a, _ *block.Layout) { a.KeysTransposed = true }, 8, 3*4*16*8 + 3},
	} {
		local, remote := l, l
		c.change(&local, &remote)
		m := block.Mapping{Local: block.Side{Layout: local, Blocks: []block.ID{1}}, Remote: block.Side{Layout: remote, Blocks: []block.ID{2}}, To: c.tokens}
		if got, err := m.Append(nil); err != nil || len(got) > c.want || len(got) < c.want-l.Layers*2*l.KVHeads {
			t.Errorf("%s: %d copies, %v, want about %d", name, len(got), err, c.want)
		}
	}
}
