package block

// LayerSpan is the run of bytes that holds one layer of a block, keys and values.
func (l Layout) LayerSpan(b ID, layer int) Span {
	bytes := l.BlockBytes() / l.Layers
	return Span{int(b)*l.BlockBytes() + layer*bytes, bytes}
}
