// Package shm is the transport between processes of one host: regions are memory
// files (memfd) that a peer maps, so that a write is a plain copy; notes go over
// the Unix socket on which the descriptors were passed.
//
// An agent listens on a socket file, whose path is in its metadata. Whoever adds it
// as a peer connects there, both say who they are, and the listening side passes
// its regions. One connection serves one direction of writes and both of notes.
//
// A mapping cannot be revoked. So Fence is proven only by the peer's own word
// that it has unmapped (it says so when it removes us or closes) or by the end of
// its process, seen on a pidfd that belongs to the socket.
//
// The socket file's mode and the peer's user id keep other users out; the processes
// of one user trust each other, as a peer that maps memory can write anywhere in
// it. Linux only; elsewhere New answers ErrUnavailable. An agent's goroutines
// belong to its Run.
package shm

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// transport is the name in the metadata.
const transport = "shm"

// maxSocketBytes is what the kernel takes as the path of a socket, less the closing zero.
const maxSocketBytes = 107

// Config of an agent.
type Config struct {
	nixl.Config
	// Socket is the absolute path of the agent's socket file, at most 107 bytes, in a
	// folder that its peers can reach. The file of a dead process is replaced.
	Socket string
}

func checkSocket(path string) error {
	switch {
	case strings.HasPrefix(path, "@") || strings.HasPrefix(path, "\x00"):
		return fmt.Errorf("shm socket %q: abstract names have no owner and end at the network namespace; want a file", path)
	case !filepath.IsAbs(path):
		return fmt.Errorf("shm socket %q: want an absolute path", path)
	case len(path) > maxSocketBytes:
		return fmt.Errorf("shm socket %q: %d bytes, want at most %d", path, len(path), maxSocketBytes)
	case strings.ContainsRune(path, 0):
		return fmt.Errorf("shm socket %q: contains a zero byte", path)
	}
	return nil
}
