package router

import (
	"sort"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// waits is the booked prompts whose blocks are not all stored yet, by the first block that
// is missing: whoever shares that block will find the ones after it, too, once they are computed.
//
// A hash stands for all that came before it, so the blocks that two chains share end where
// their hashes begin to differ, which is found by bisection.
type waits struct {
	first map[block.Hash]*wait // lists by next
	free  *wait                // at most freeMost
	spare int                  // of those
	count int
}

// freeMost bounds the waits whose memory is kept for the next ones.
const freeMost = 1024

// chainKept is the longest chain, in blocks, whose memory is used again.
const chainKept = 1 << 14

// wait is one of them.
type wait struct {
	worker *worker
	chain  []block.Hash // its own copy
	from   int          // the first block that the worker has not stored
	listed bool
	next   *wait
}

// add lets the blocks of a chain be waited for, from the first that is not held. It returns
// nil where all are held.
func (s *waits) add(w *worker, chain []block.Hash, held int) *wait {
	if held >= len(chain) {
		return nil
	}
	e := s.free
	if e == nil {
		e = &wait{}
	} else {
		s.free = e.next
		s.spare--
	}
	*e = wait{worker: w, chain: append(e.chain[:0], chain...), from: held}
	s.link(e)
	return e
}

func (s *waits) link(e *wait) {
	key := e.chain[e.from]
	e.next, e.listed = s.first[key], true
	s.first[key] = e
	s.count++
}

func (s *waits) unlink(e *wait) {
	key := e.chain[e.from]
	if s.first[key] == e {
		if e.next == nil {
			delete(s.first, key)
		} else {
			s.first[key] = e.next
		}
	} else {
		at := s.first[key]
		for at.next != e {
			at = at.next
		}
		at.next = e.next
	}
	e.next, e.listed = nil, false
	s.count--
}

// drop ends a wait for good; nil is none. Who waited must not use it any more.
func (s *waits) drop(e *wait) {
	if e == nil {
		return
	}
	if e.listed {
		s.unlink(e)
	}
	e.worker = nil
	if s.spare == freeMost {
		return
	}
	if cap(e.chain) > chainKept {
		e.chain = nil
	}
	e.next, s.free = s.free, e
	s.spare++
}

// dropWorker ends the listing of all that waits for a worker's blocks. Their owners still
// drop each.
func (s *waits) dropWorker(w *worker) {
	var gone []*wait
	for _, e := range s.first {
		for ; e != nil; e = e.next {
			if e.worker == w {
				gone = append(gone, e)
			}
		}
	}
	for _, e := range gone {
		s.unlink(e)
	}
}

// stored moves on those whose missing block has come.
func (s *waits) stored(w *worker, chain []block.Hash) {
	for i := 0; i < len(chain) && s.count > 0; i++ {
		for e := s.first[chain[i]]; e != nil; {
			next := e.next
			if e.worker == w {
				s.unlink(e)
				if e.from += shared(e.chain[e.from:], chain[i:]); e.from < len(e.chain) {
					s.link(e)
				}
			}
			e = next
		}
	}
}

// shared is how many leading blocks of two chains, which continue the same block, are equal.
func shared(a, b []block.Hash) int {
	n := min(len(a), len(b))
	if n > 0 && a[n-1] == b[n-1] {
		return n
	}
	return sort.Search(n, func(i int) bool { return a[i] != b[i] })
}
