//go:build linux

package shm

import (
	"encoding/json"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

// protocolVersion changes when old and new agents cannot talk.
const protocolVersion = 1

// checkGreeting returns the sender's metadata if it may be a peer of ours.
func checkGreeting(payload []byte, own nixl.Metadata) (nixl.Metadata, error) {
	var g wire.Greeting
	if err := json.Unmarshal(payload, &g); err != nil {
		return nixl.Metadata{}, fmt.Errorf("%w: hello: %w", wire.ErrFrame, err)
	}
	return g.Check(own, protocolVersion)
}
