//go:build cgo && linux

package native

/*
#include <stdlib.h>
#include "nixl.h"
*/
import "C"

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Agent is a NIXL agent with one UCX backend. NIXL's own lock (its RW mode) makes the calls safe
// beside each other, but not against the end of what they use: a handle is used by one
// caller at a time and not after its release; no call is made beside Destroy; no name but that of a
// loaded peer is given to Notify; a peer is invalidated after all its requests have been released.
type Agent struct{ c *C.sy_agent }

// Handles of NIXL's. They are memory of C.
type (
	// List is a prepared list of runs.
	List struct{ p unsafe.Pointer }
	// Request is a transfer request.
	Request struct{ p unsafe.Pointer }
)

// Region says where runs begin.
type Region struct {
	Base   uintptr
	Device int
	VRAM   bool
}

func (r Region) c() C.sy_region {
	out := C.sy_region{base: C.uintptr_t(r.Base), device: C.uint64_t(r.Device), mem: C.SY_DRAM}
	if r.VRAM {
		out.mem = C.SY_VRAM
	}
	return out
}

// NewAgent makes an agent with a thread of NIXL's, which UCX wakes when something comes, and which
// looks by itself each interval. Without it, all calls would have to wait while Receive takes in
// what peers send without a pause.
func (l *Library) NewAgent(name string, interval time.Duration) (*Agent, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	a := &Agent{(*C.sy_agent)(C.calloc(1, C.sizeof_sy_agent))}
	if s := Status(C.sy_create_agent(l.calls, cname, C.uint64_t(interval.Microseconds()), a.c)); s != success {
		C.free(unsafe.Pointer(a.c))
		return nil, s
	}
	return a, nil
}

// Destroy ends the agent's thread and closes its connections.
func (a *Agent) Destroy() error {
	defer C.free(unsafe.Pointer(a.c))
	return Status(C.sy_destroy_agent(a.c)).Err()
}

// Register makes memory reachable.
func (a *Agent) Register(r Region, bytes int) error {
	return Status(C.sy_register(a.c, r.c(), C.size_t(bytes), true)).Err()
}

// Deregister ends what Register began.
func (a *Agent) Deregister(r Region, bytes int) error {
	return Status(C.sy_register(a.c, r.c(), C.size_t(bytes), false)).Err()
}

// Metadata is what a peer loads.
func (a *Agent) Metadata() ([]byte, error) {
	var data unsafe.Pointer
	var n C.size_t
	if s := Status(C.sy_local_md(a.c, &data, &n)); s != success {
		return nil, s
	}
	defer C.free(data)
	return C.GoBytes(data, C.int(n)), nil
}

// Load makes a peer known and returns its name.
func (a *Agent) Load(metadata []byte) (name string, err error) {
	var cname *C.char
	s := Status(C.sy_load_md(a.c, unsafe.Pointer(unsafe.SliceData(metadata)), C.size_t(len(metadata)), &cname))
	if s != success {
		return "", s
	}
	defer C.free(unsafe.Pointer(cname))
	return C.GoString(cname), nil
}

// Invalidate forgets a peer and closes the connection with it.
func (a *Agent) Invalidate(name string) error {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	return Status(C.sy_invalidate_md(a.c, cname)).Err()
}

// Prepare makes a list of runs of a peer's region, or of the own one when name is empty.
func (a *Agent) Prepare(name string, r Region, runs []block.Span) (List, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var l List
	s := C.sy_prepare(a.c, cname, r.c(), (*C.sy_span)(unsafe.Pointer(unsafe.SliceData(runs))), C.size_t(len(runs)), &l.p)
	return l, Status(s).Err()
}

// ReleaseList frees a list, if it is one.
func (a *Agent) ReleaseList(l List) error {
	if l.p == nil {
		return nil
	}
	return Status(C.sy_release_list(a.c, l.p)).Err()
}

func direction(op nixl.Op) C.int {
	if op == nixl.Read {
		return C.SY_READ
	}
	return C.SY_WRITE
}

// Make pairs runs of two lists. Both have the same number of indices, at least one.
func (a *Agent) Make(op nixl.Op, local List, li []int32, remote List, ri []int32) (Request, error) {
	var r Request
	s := C.sy_make(a.c, direction(op), local.p, (*C.int)(unsafe.SliceData(li)), remote.p, (*C.int)(unsafe.SliceData(ri)), C.size_t(len(li)), &r.p)
	return r, Status(s).Err()
}

// Create pairs the copies that are not empty, of which there is at least one.
func (a *Agent) Create(op nixl.Op, name string, local, remote Region, copies []nixl.Copy) (Request, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var r Request
	s := C.sy_create(a.c, direction(op), cname, local.c(), remote.c(),
		(*C.sy_copy)(unsafe.Pointer(unsafe.SliceData(copies))), C.size_t(len(copies)), &r.p)
	return r, Status(s).Err()
}

// Post starts a request. It returns nil when all is done already, InProgress when not.
func (a *Agent) Post(r Request) error { return Status(C.sy_post(a.c, r.p)).Err() }

// Status asks for the state of a posted request.
func (a *Agent) Status(r Request) error { return Status(C.sy_status(a.c, r.p)).Err() }

// Release frees a request. One in flight is torn from UCX, and its bytes may still move.
func (a *Agent) Release(r Request) error { return Status(C.sy_release(a.c, r.p)).Err() }

// Notify sends a note to a loaded peer and does not wait. An error says that the connection
// with the peer has failed.
func (a *Agent) Notify(name string, note []byte) error {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	return Status(C.sy_notify(a.c, cname, unsafe.Pointer(unsafe.SliceData(note)), C.size_t(len(note)))).Err()
}

// Receive returns the notes that have come, those of one sender not always in their order.
// One caller at a time.
func (a *Agent) Receive() ([]Note, error) {
	err := Status(C.sy_receive(a.c)).Err()
	if a.c.received == nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(a.c.received))
	return unpack(unsafe.Slice((*byte)(unsafe.Pointer(a.c.received)), int(a.c.received_bytes))), err
}

// unpack copies what sy_receive packed.
func unpack(b []byte) (notes []Note) {
	for len(b) > 0 {
		name, note := binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:])
		from := string(b[16:][:name])
		notes = append(notes, Note{from, append([]byte(nil), b[16+name:][:note]...)})
		b = b[16+name+note:]
	}
	return notes
}
