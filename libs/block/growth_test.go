package block_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// TestARunningSequenceGrowsWhateverIsReserved fills a pool with reservations, claims and
// quarantine around a sequence that runs: what it was admitted with is there when it needs it.
func TestARunningSequenceGrowsWhateverIsReserved(t *testing.T) {
	pool, err := block.NewPool(block.Config{Blocks: 16, BlockTokens: 4, Chain: mix(64)})
	if err != nil {
		t.Fatal(err)
	}
	admit := func(name string, blocks int) *block.Table {
		t.Helper()
		tokens := make([]sequence.Token, 4*(blocks-1)+1)
		table, err := pool.Admit(block.Prompt{Tokens: tokens, Namespace: name, Root: block.Hash(len(name))}, blocks)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	prompt := []sequence.Token{1, 2, 3, 4, 5}
	running, err := pool.Admit(block.Prompt{Tokens: prompt, Namespace: "running"}, 6) // 2 blocks of prompt, 4 to grow
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(running.Extend(len(prompt)), running.Advance(prompt)); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	var waiting []*block.Table
	for i := range 5 { // takes all that is left
		name := fmt.Sprint("w", i)
		table := admit(name, 2)
		if _, err := table.Reserve(block.TransferID(name)); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, table)
	}
	if _, err := pool.Admit(block.Prompt{Tokens: prompt, Namespace: "late"}, 2); !errors.Is(err, block.ErrNoRoom) {
		t.Fatalf("a sequence beyond the pool was admitted: %v", err)
	}
	for i := range 3 { // some are claimed, one of them is lost to its writer
		_, err := pool.Claim(block.TransferID(fmt.Sprint("w", i)), block.Claim{
			Attempt: "a", Writer: "prefill", Now: now, Expiry: now.Add(time.Duration(i+1) * time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pool.Expire(now.Add(1500 * time.Millisecond))
	if c := pool.Counts(); c.Now[block.Quarantine] == 0 || c.Now[block.Claimed] == 0 || c.Now[block.Reserved] == 0 {
		t.Fatalf("%+v", c)
	}
	for n := len(prompt); n < 6*4; n++ {
		if err := errors.Join(running.Extend(n+1), running.Advance([]sequence.Token{9})); err != nil {
			t.Fatalf("position %d: %v", n, err)
		}
	}
	for _, table := range append(waiting, running) {
		table.Release()
	}
}
