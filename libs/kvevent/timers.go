package kvevent

import (
	"container/heap"
	"time"
)

// timers holds the streams that wait for a time, the next one first.
type timers []*stream

func (t *timers) set(s *stream, when time.Time) {
	s.when = when
	if s.at < 0 {
		heap.Push((*timerHeap)(t), s)
	} else {
		heap.Fix((*timerHeap)(t), s.at)
	}
}

func (t *timers) stop(s *stream) {
	if s.at >= 0 {
		heap.Remove((*timerHeap)(t), s.at)
	}
}

// pop takes the next stream whose time has come; nil: there is none.
func (t *timers) pop(now time.Time) *stream {
	if len(*t) == 0 || (*t)[0].when.After(now) {
		return nil
	}
	return heap.Pop((*timerHeap)(t)).(*stream)
}

// timerHeap implements heap.Interface for timers.
type timerHeap []*stream

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].when.Before(h[j].when) }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *timerHeap) Push(x any) {
	s := x.(*stream)
	s.at = len(*h)
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h, s.at = (*h)[:last], -1
	return s
}
