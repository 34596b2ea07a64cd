package block

// strides are the distances within a layer's keys or values, in bytes.
type strides struct{ head, token, element int }

func (l Layout) strides(keys bool) strides {
	row := l.HeadDim * l.ElemBytes
	switch {
	case keys && l.KeysTransposed:
		return strides{l.BlockTokens * row, l.ElemBytes, l.BlockTokens * l.ElemBytes}
	case l.TokenMajor:
		return strides{row, l.LocalHeads() * row, l.ElemBytes}
	}
	return strides{l.BlockTokens * row, row, l.ElemBytes}
}

// axis is one dimension of keys or values, with its stride on each side.
type axis struct{ count, to, from int }

// plane is how keys, or values, of one layer are walked: axes in the order of the
// destination's bytes, of which axes[tokens] counts positions.
type plane struct {
	axes   [3]axis
	tokens int
	// to and from are where the common heads begin on each side.
	to, from int
}

// mapper makes the copies of one Mapping.
type mapper struct {
	Mapping
	from, to            Side
	fromBlock, toBlock  int // bytes of a block
	fromPlane, toPlane  int // bytes of a layer's keys, which are those of its values
	planes              [2]plane
	same                bool // whole blocks have the same bytes on both sides
	copies              []Copy
	mark                int // copies before it are not extended
	source, skip, count int // of the block in hand: its first source block, the rows to skip in that, its positions
}

// plan works out what all blocks have in common. It answers false when the sides have
// no heads in common.
func (w *mapper) plan() bool {
	to, from := w.to.Layout, w.from.Layout
	w.toBlock, w.fromBlock = to.BlockBytes(), from.BlockBytes()
	w.toPlane, w.fromPlane = w.toBlock/(2*to.Layers), w.fromBlock/(2*from.Layers)
	first := max(to.FirstHead(), from.FirstHead())
	heads := min(to.FirstHead()+to.LocalHeads(), from.FirstHead()+from.LocalHeads()) - first
	if heads <= 0 {
		return false
	}
	for i, keys := range [2]bool{true, false} {
		t, f := to.strides(keys), from.strides(keys)
		p := &w.planes[i]
		p.to, p.from = (first-to.FirstHead())*t.head, (first-from.FirstHead())*f.head
		head, token := axis{heads, t.head, f.head}, axis{0, t.token, f.token}
		element := axis{to.HeadDim, t.element, f.element}
		switch {
		case keys && to.KeysTransposed:
			p.axes, p.tokens = [3]axis{head, element, token}, 2
		case to.TokenMajor:
			p.axes, p.tokens = [3]axis{token, head, element}, 0
		default:
			p.axes, p.tokens = [3]axis{head, token, element}, 1
		}
	}
	w.same = to.BlockTokens == from.BlockTokens && to.KeysTransposed == from.KeysTransposed &&
		to.TokenMajor == from.TokenMajor && heads == to.LocalHeads() && heads == from.LocalHeads()
	return true
}

// block maps the positions of one destination block.
func (w *mapper) block(i int) {
	tokens, fromTokens := w.to.Layout.BlockTokens, w.from.Layout.BlockTokens
	start := w.to.First + i*tokens
	first := max(w.Mapping.From, start)
	w.count = min(w.Mapping.To, start+tokens) - first
	w.source, w.skip = (first-w.from.First)/fromTokens, (first-w.from.First)%fromTokens
	w.mark = len(w.copies)
	to, from := int(w.to.Blocks[i])*w.toBlock, int(w.from.Blocks[w.source])*w.fromBlock
	if w.same && w.skip == 0 && w.count == tokens {
		w.emit(to, from, w.toBlock)
		return
	}
	whole := w.skip+w.count <= fromTokens
	for range w.to.Layout.Layers {
		for k := range w.planes {
			p := &w.planes[k]
			token := &p.axes[p.tokens]
			at := to + p.to + (first-start)*token.to
			if whole {
				token.count = w.count
				w.walk(p.axes[:], at, from+p.from+w.skip*token.from)
			} else {
				w.split(p.axes[:], p.tokens, at, from+p.from)
			}
			to, from = to+w.toPlane, from+w.fromPlane
		}
	}
}

// split walks the axes before that of the tokens, which lie in several source blocks,
// and then block by block. The offset from lies in the first of them.
func (w *mapper) split(axes []axis, tokens, to, from int) {
	if tokens > 0 {
		for i := range axes[0].count {
			w.split(axes[1:], tokens-1, to+i*axes[0].to, from+i*axes[0].from)
		}
		return
	}
	token, source, skip := &axes[0], w.source, w.skip
	for left := w.count; left > 0; left -= token.count {
		token.count = min(left, w.from.Layout.BlockTokens-skip)
		moved := int(w.from.Blocks[source]-w.from.Blocks[w.source]) * w.fromBlock
		w.walk(axes, to, from+moved+skip*token.from)
		to, source, skip = to+token.count*token.to, source+1, 0
	}
}

// walk makes the copies of axes that lie in one block on each side.
func (w *mapper) walk(axes []axis, to, from int) {
	run := w.to.Layout.ElemBytes
	for len(axes) > 0 {
		last := axes[len(axes)-1]
		if last.count > 1 && (last.to != run || last.from != run) {
			break
		}
		run *= last.count
		axes = axes[:len(axes)-1]
	}
	w.runs(axes, to, from, run)
}

func (w *mapper) runs(axes []axis, to, from, run int) {
	if len(axes) == 0 {
		w.emit(to, from, run)
		return
	}
	a := axes[0]
	for range a.count {
		if len(axes) == 1 {
			w.emit(to, from, run)
		} else {
			w.runs(axes[1:], to, from, run)
		}
		to, from = to+a.to, from+a.from
	}
}

// emit appends a run, or extends the last one by it.
func (w *mapper) emit(to, from, n int) {
	local, remote := from, to
	if w.Read {
		local, remote = to, from
	}
	if at := len(w.copies); at > w.mark {
		if last := &w.copies[at-1]; last.Local.Offset+last.Local.Bytes == local && last.Remote.Offset+last.Remote.Bytes == remote {
			last.Local.Bytes += n
			last.Remote.Bytes += n
			return
		}
	}
	w.copies = append(w.copies, Copy{Span{local, n}, Span{remote, n}})
}
