package tokenizer

// rankHeap is a binary min-heap of (rank, position) packed into one word each, so
// that the order is by rank, then from left to right.
type rankHeap []uint64

func (h *rankHeap) push(rank uint32, at int32) {
	*h = append(*h, uint64(rank)<<32|uint64(uint32(at)))
	a := *h
	for i := len(a) - 1; i > 0; {
		parent := (i - 1) / 2
		if a[parent] <= a[i] {
			return
		}
		a[parent], a[i] = a[i], a[parent]
		i = parent
	}
}

func (h *rankHeap) pop() (rank uint32, at int32) {
	a := *h
	top := a[0]
	last := len(a) - 1
	a[0] = a[last]
	a = a[:last]
	*h = a
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(a) {
			break
		}
		if child+1 < len(a) && a[child+1] < a[child] {
			child++
		}
		if a[i] <= a[child] {
			break
		}
		a[i], a[child] = a[child], a[i]
		i = child
	}
	return uint32(top >> 32), int32(uint32(top))
}
