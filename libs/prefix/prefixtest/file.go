package prefixtest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// Write writes a workload in little-endian numbers: u32 workers, u32 requests, u64 root; then for each request u32
// worker, u32 blocks of its chain, u32 removed blocks, u32 ranges, u64 answer, the hashes of the chain and of the
// removed blocks as u64, and the ranges as two u32 each.
func (w *Workload) Write(to io.Writer) error {
	out := bufio.NewWriterSize(to, 1<<20)
	put := func(numbers ...int) {
		for _, n := range numbers {
			out.Write(binary.LittleEndian.AppendUint32(out.AvailableBuffer(), uint32(n))) // Flush tells the error
		}
	}
	long := func(hashes ...block.Hash) {
		for _, h := range hashes {
			out.Write(binary.LittleEndian.AppendUint64(out.AvailableBuffer(), uint64(h)))
		}
	}
	put(w.Workers, len(w.Requests))
	long(w.Root)
	for _, r := range w.Requests {
		put(r.Worker, len(r.Chain), len(r.Removed), len(r.Stored))
		long(block.Hash(r.Answer))
		long(r.Chain...)
		long(r.Removed...)
		for _, s := range r.Stored {
			put(s.From, s.To)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write workload: %w", err)
	}
	return nil
}
