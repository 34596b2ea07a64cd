//go:build cgo && linux

// Package cloop makes NIXL's calls in a bare C loop, for the benchmarks of libs/nixl/capi to
// compare with. It shares nothing with the transport but the library file. It is for tests only and starts
// no goroutine.
package cloop

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "loop.h"
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// Pair is two NIXL agents of this process, one of which writes runs to the other.
type Pair struct{ c C.loop_pair }

// Runs are n runs of memory on both sides, of run bytes each, each stride bytes behind the one before.
type Runs struct {
	Local, Remote  uintptr
	N, Run, Stride int
}

// Open makes a pair with the library that has been loaded from path.
func Open(path string, r Runs) (*Pair, error) {
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	p := new(Pair)
	step := C.loop_open(cpath, C.uintptr_t(r.Local), C.uintptr_t(r.Remote), C.size_t(r.N*r.Stride), C.size_t(r.N), C.size_t(r.Run), C.size_t(r.Stride), &p.c)
	if step != 0 {
		return nil, fmt.Errorf("bare loop: step %d did not work", step)
	}
	return p, nil
}

// Close ends the agents.
func (p *Pair) Close() { C.loop_close(&p.c) }

// Once makes, posts and awaits one request of the runs with these indices on both
// sides, and returns the time until the post had returned and that until the end.
func (p *Pair) Once(indices []int32) (posted, ended time.Duration, err error) {
	var a, b C.int64_t
	s := C.loop_once(&p.c, (*C.int)(unsafe.SliceData(indices)), C.size_t(len(indices)), &a, &b)
	if s != 0 {
		return 0, 0, fmt.Errorf("bare loop: NIXL status %d", s)
	}
	return time.Duration(a), time.Duration(b), nil
}
