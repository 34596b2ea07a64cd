package block_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// A scheduler owns its tables while handlers claim, commit, renew and withdraw: of a
// commit and a withdrawal exactly one wins.
func TestConcurrentCommitAndWithdrawalHaveOneWinner(t *testing.T) {
	pool, err := block.NewPool(block.Config{Blocks: 64, BlockTokens: 4, Chain: mix(64)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	var tables []*block.Table
	for i := range 300 {
		table, err := pool.Admit(block.Prompt{Tokens: letters(fmt.Sprint("prompt number ", i))}, 8)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
		id := block.TransferID(fmt.Sprint(i))
		if _, err := table.Reserve(id); err != nil {
			t.Fatal(err)
		}
		commits, withdrawn := race(pool, id, now)
		if commits > 1 || (commits == 1) == withdrawn {
			t.Fatalf("transfer %d: %d commits and withdrawn=%v", i, commits, withdrawn)
		}
		if got, want := table.Len() > table.CachedTokens(), commits == 1; got != want {
			t.Fatalf("transfer %d: the table has %d rows after %d commits", i, table.Len(), commits)
		}
		table.Release()
		pool.Settle(block.Proof{Writer: "w"})
		if err := pool.Check(tables); err != nil {
			t.Fatal(err)
		}
	}
}

func race(pool *block.Pool, id block.TransferID, now time.Time) (commits int, withdrawn bool) {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for writer := range 3 {
		wg.Go(func() {
			attempt := block.AttemptID(fmt.Sprint(writer))
			tk, err := pool.Claim(id, block.Claim{Attempt: attempt, Writer: "w", Now: now, Expiry: now.Add(time.Second)})
			if err != nil {
				return
			}
			_ = pool.Renew(id, attempt, now.Add(2*time.Second)) // either answer is right
			_ = pool.ReleaseHold(id, attempt)
			if pool.Commit(id, block.Receipt{Writer: "w", Ticket: tk.Number, Blocks: tk.Blocks, Tokens: tk.To}) == nil {
				mu.Lock()
				commits++
				mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		pool.Expire(now)
		pool.Counts()
		withdrawn = !pool.Withdraw(id)
	})
	wg.Wait()
	return commits, withdrawn
}
