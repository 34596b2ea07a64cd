package kvevent

import (
	"errors"
	"fmt"
	"time"
)

// FollowerConfig says what a Follower follows, and its limits.
type FollowerConfig struct {
	Pool  Pool
	Model string
	// BlockTokens is the block size that the sink counts in; batches of another are refused. 0: any.
	BlockTokens int
	// Sources is how many ranks are followed; events of further ones are dropped.
	Sources int
	// Buffer is how many events of one source are kept while its snapshot is under way; beyond it
	// the oldest go.
	Buffer int
	// BufferAll bounds the same over all sources.
	BufferAll int
	// Requests is how many snapshots are under way at a time; one worker is asked for one at a time.
	Requests int
	// Jitter is the longest delay of a request, so that those who miss the same event do not all
	// ask at once.
	Jitter time.Duration
	// Pause is the shortest time between two requests for one source, doubled with each failure up
	// to PauseMax.
	Pause, PauseMax time.Duration
	// Timeout bounds one snapshot.
	Timeout time.Duration
	// Silence is how long the events may lag behind a report before some count as lost.
	Silence time.Duration
	// SnapshotBlocks bounds what one snapshot may hold.
	SnapshotBlocks int
}

// DefaultFollowerConfig suits thousands of workers.
func DefaultFollowerConfig(pool Pool, model string, blockTokens int) FollowerConfig {
	return FollowerConfig{
		Pool: pool, Model: model, BlockTokens: blockTokens, Sources: 1 << 14, Buffer: 1 << 16, BufferAll: 1 << 22,
		Requests: 8,
		Jitter:   50 * time.Millisecond, Pause: 500 * time.Millisecond, PauseMax: 10 * time.Second,
		Timeout: 10 * time.Second, Silence: 500 * time.Millisecond, SnapshotBlocks: 1 << 24,
	}
}

// Validate names the first field that cannot be.
func (c FollowerConfig) Validate() error {
	if c.Pool != Decode && c.Pool != Prefill {
		return fmt.Errorf("pool is %q, want %s or %s", c.Pool, Decode, Prefill)
	}
	if c.Model == "" {
		return errors.New("model is empty, want the served name")
	}
	for _, f := range []struct {
		name       string
		value, min int
	}{
		{"block_tokens", c.BlockTokens, 0}, {"sources", c.Sources, 1}, {"buffer", c.Buffer, 1},
		{"buffer_all", c.BufferAll, 1}, {"requests", c.Requests, 1}, {"snapshot_blocks", c.SnapshotBlocks, 1},
	} {
		if f.value < f.min {
			return fmt.Errorf("%s is %d, want at least %d", f.name, f.value, f.min)
		}
	}
	switch {
	case c.Jitter < 0:
		return fmt.Errorf("jitter is %v, want at least 0", c.Jitter)
	case c.Pause <= 0 || c.PauseMax < c.Pause:
		return fmt.Errorf("pause is %v to %v, want more than 0, and no less at the end", c.Pause, c.PauseMax)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout is %v, want more than 0", c.Timeout)
	case c.Silence <= 0:
		return fmt.Errorf("silence is %v, want more than 0", c.Silence)
	}
	return nil
}
