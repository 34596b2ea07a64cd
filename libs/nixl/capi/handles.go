//go:build cgo && linux

package capi

import "sync"

// handle is a transfer or a list, for which NIXL holds something until drop.
type handle interface{ drop() }

// handles are those that end with a link. The zero value is open.
type handles struct {
	mu       sync.Mutex // guards all below
	closed   bool
	orphaned bool // some were in flight when it was closed
	held     map[handle]struct{}
}

// add tells whether the link still takes any.
func (h *handles) add(x handle) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.held == nil {
		h.held = make(map[handle]struct{})
	}
	h.held[x] = struct{}{}
	return true
}

// remove tells whether x was the last of those that were in flight at the close.
func (h *handles) remove(x handle) (last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, x)
	last = h.orphaned && len(h.held) == 0
	h.orphaned = h.orphaned && !last
	return last
}

func (h *handles) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// close refuses further ones and drops all; those that are in flight are left, and
// drop themselves at their end.
func (h *handles) close(inFlight func(handle) bool) (left bool) {
	h.mu.Lock()
	h.closed = true
	all := make([]handle, 0, len(h.held))
	for x := range h.held {
		all = append(all, x)
	}
	h.mu.Unlock()
	for _, x := range all {
		x.drop()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range all {
		if !inFlight(x) {
			delete(h.held, x)
		}
	}
	h.orphaned = len(h.held) > 0
	return h.orphaned
}
