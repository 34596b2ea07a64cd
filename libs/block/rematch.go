package block

// Rematch looks again for the prefix of a prompt that nobody has begun to compute: since the table was
// admitted another sequence may have computed more of it. It returns how many rows came into
// place, whole blocks, whose bookings return. Once the prompt was begun, or set aside for a
// remote writer, it does nothing.
func (t *Table) Rematch() int {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.released || t.transfer != nil || t.owed > 0 || len(t.blocks) > t.cached || t.tip.node == 0 {
		return 0
	}
	before := t.len
	size := p.config.BlockTokens
	for t.booked > 0 && t.len+size < len(t.prompt) { // one token is always computed
		tokens := t.prompt[t.len : t.len+size]
		hash := p.config.Chain(t.tip.hash, tokens)
		b, ok := p.index[hash]
		if !ok {
			break
		}
		if !p.same(b, t.tip.node, tokens) {
			p.stats.Collisions++
			break
		}
		if p.blocks[b].evictable {
			p.unlist(b)
		}
		p.blocks[b].refs++
		t.blocks = append(t.blocks, b)
		t.tip = tip{hash, p.blocks[b].node}
		t.cached++
		t.len += size
		t.booked--
		p.booked--
	}
	p.stats.CachedTokens += uint64(t.len - before)
	return t.len - before
}
