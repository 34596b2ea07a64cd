// Package capi is the transport over NVIDIA's NIXL with its UCX backend: for RDMA
// and GPU memory, and over TCP where there is neither. It loads libnixl_capi.so by
// dlopen; a binary that holds it runs without the library, and New then answers
// ErrUnavailable.
//
// It is no way to build NIXL: the library comes with NVIDIA's wheels (nixl-cu12,
// nixl-cu13), with UCX beside it. It was tried with version 1.5.1 over TCP; memory
// of a GPU (VRAM) is passed through by address and device, and was never tried.
//
// One process has one UCX, which cannot be unloaded. Its settings are read once, so
// they are the environment's; where that says nothing, the log goes to standard
// error, signals stay Go's, and TCP moves segments of 64 KiB.
//
// # Peers
//
// Who adds a peer loads its NIXL metadata and says hello in a note that carries its own,
// so that the target can answer. Each note has a checksum, its sender, and a
// number, since NIXL does not keep the order of notes; those that wait are
// bounded by the peer's inbox. Both sides say each second that they live; a silence of 5 s, or an
// endpoint at which UCX reports an error, is the end of a peer.
//
// # What is proven
//
// Whoever has been welcomed holds keys to our memory until it says goodbye, which it does
// when no transfer of it is in flight. NIXL cannot take keys back: deregistering changes
// nothing where UCX emulates writes by messages; closing our endpoint leaves the connection to
// the peer's; and a destroyed agent would have to be published anew under another address, which breaks all
// of its peers. So Fence is proven by the goodbye. Over TCP alone (UCX_TLS names tcp
// and self and nothing else) it is also proven by the failure of our endpoint with the peer: UCX has one
// connection for the endpoints of both sides, over which the writes came, in order before its end.
// Otherwise Fence and Revoke answer ErrStillAlive.
//
// A transfer in flight cannot be cancelled. Releasing it would tear it from UCX
// while its bytes may still land, so Release answers ErrInProgress, and a transfer whose
// end does not come is unsettled for as long as the agent lives. A write is unsettled as well when
// its endpoint fails: what had left may still land. A read is aborted then.
//
// Memory must outlive the agent: a late write of a peer lands by address.
//
// An agent's goroutines belong to its Run, which polls for notes, at rest each 2 ms. NIXL's
// own thread, which serves the peers' writes and reads, lives from New to Close.
package capi

import (
	"fmt"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// EnvLibrary is the environment variable that names the library file. Where it is
// set, nowhere else is looked.
const EnvLibrary = "SWITCHYARD_NIXL_CAPI"

// ErrUnavailable: no usable NIXL library; the message says where was looked. It is a
// nixl.ErrUnavailable as well.
var ErrUnavailable = fmt.Errorf("NIXL: %w", nixl.ErrUnavailable)

// transport is the name in the metadata.
const transport = "nixl"

// Config of an agent.
type Config struct {
	nixl.Config
	// Alive is how often peers hear from us; 0 means 1 s.
	Alive time.Duration
	// Silence is after how long without a sign of life a peer is gone; 0 means 5 s.
	Silence time.Duration
}

func (c Config) complete() (Config, error) {
	base, err := c.Config.Complete()
	if err != nil {
		return c, err
	}
	c.Config = base
	if c.Alive == 0 {
		c.Alive = time.Second
	}
	if c.Silence == 0 {
		c.Silence = 5 * time.Second
	}
	if c.Alive < 0 || c.Silence < 2*c.Alive {
		return c, fmt.Errorf("capi configuration: signs of life each %s and a silence of %s; want the silence to be twice as long at least", c.Alive, c.Silence)
	}
	return c, nil
}
