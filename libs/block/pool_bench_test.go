package block_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/prefix"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

const benchTokens = 2000

func benchPool(b *testing.B, size int) (*block.Pool, block.Prompt) {
	pool, err := block.NewPool(block.Config{Blocks: 65536 / size, BlockTokens: size, Chain: prefix.Next})
	if err != nil {
		b.Fatal(err)
	}
	pr := block.Prompt{Tokens: make([]sequence.Token, benchTokens), Namespace: "model", Root: prefix.Root("model", "", "")}
	for i := range pr.Tokens {
		pr.Tokens[i] = sequence.Token(i * 7919 % 49152)
	}
	return pool, pr
}

func prefill(b *testing.B, pool *block.Pool, pr block.Prompt, size int) *block.Table {
	table, err := pool.Admit(pr, (benchTokens+size-1)/size)
	if err != nil {
		b.Fatal(err)
	}
	if err := table.Extend(benchTokens); err != nil {
		b.Fatal(err)
	}
	if err := table.Advance(pr.Tokens[table.Len():]); err != nil {
		b.Fatal(err)
	}
	return table
}

func perBlock(b *testing.B, size int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(benchTokens/size), "ns/block")
}

// A prompt of which all full blocks are cached: the common case of a chat.
func BenchmarkAdmitHitAndRelease(b *testing.B) {
	for _, size := range []int{16, 64} {
		b.Run(fmt.Sprintf("block%d", size), func(b *testing.B) {
			pool, pr := benchPool(b, size)
			prefill(b, pool, pr, size).Release()
			b.ReportAllocs()
			for b.Loop() {
				table, err := pool.Admit(pr, benchTokens/size+1)
				if err != nil {
					b.Fatal(err)
				}
				table.Release()
			}
			perBlock(b, size)
		})
	}
}

// A prompt of which nothing is cached, in a pool that is full: every block is
// evicted, opened, sealed and indexed.
func BenchmarkPrefillMissAndRelease(b *testing.B) {
	for _, size := range []int{16, 64} {
		b.Run(fmt.Sprintf("block%d", size), func(b *testing.B) {
			pool, pr := benchPool(b, size)
			b.ReportAllocs()
			for b.Loop() {
				pr.Tokens[0]++
				prefill(b, pool, pr, size).Release()
			}
			perBlock(b, size)
		})
	}
}

// Reserve, claim and commit of a whole prompt: what a hand-off costs in the pool.
func BenchmarkHandoff(b *testing.B) {
	const size = 64
	pool, pr := benchPool(b, size)
	now := time.Unix(1e9, 0)
	b.ReportAllocs()
	for b.Loop() {
		pr.Tokens[0]++
		table, err := pool.Admit(pr, benchTokens/size+1)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := table.Reserve("t"); err != nil {
			b.Fatal(err)
		}
		tk, err := pool.Claim("t", block.Claim{Attempt: "a", Writer: "w", Now: now, Expiry: now.Add(time.Second)})
		if err != nil {
			b.Fatal(err)
		}
		if err := pool.Commit("t", block.Receipt{Writer: "w", Ticket: tk.Number, Blocks: tk.Blocks, Tokens: tk.To}); err != nil {
			b.Fatal(err)
		}
		table.Release()
	}
	perBlock(b, size)
}

// One decode step of one sequence: a token is appended.
func BenchmarkAdvanceOneToken(b *testing.B) {
	const size = 64
	pool, pr := benchPool(b, size)
	table, err := pool.Admit(pr, 1024)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { table.Release() }()
	n, one := 0, pr.Tokens[:1]
	for b.Loop() {
		if n == 1024*size {
			table.Release()
			if table, err = pool.Admit(pr, 1024); err != nil {
				b.Fatal(err)
			}
			n = 0
		}
		n = max(n, table.CachedTokens()) + 1
		if err := table.Extend(n); err != nil {
			b.Fatal(err)
		}
		if err := table.Advance(one); err != nil {
			b.Fatal(err)
		}
	}
}
