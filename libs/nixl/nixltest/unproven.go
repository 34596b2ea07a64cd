package nixltest

import (
	"context"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Unproven is an agent that cannot prove that a grant is over, as one whose peers map
// its memory: its owner needs their word or a fence.
type Unproven struct{ nixl.Agent }

// Revoke is nixl.Agent's, without an effect.
func (Unproven) Revoke(context.Context, nixl.PeerID, uint64) error { return nixl.ErrStillAlive }
