package prefixtest_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/prefix/prefixtest"
)

func TestAWorkerStoresWhatItHasNotAndRemovesTheLongestUnused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	trace := `{"hash_ids": [0, 1]}
{"hash_ids": [0, 2]}
{"hash_ids": [0, 1]}
`
	if err := os.WriteFile(path, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := prefixtest.Load(path, prefixtest.Config{Workers: 1, PoolBlocks: 5, Blocks: 2})
	if err != nil {
		t.Fatal(err)
	}
	first, second, third := w.Requests[0], w.Requests[1], w.Requests[2]
	wanted := []struct {
		lead    uint32
		stored  []prefixtest.Range
		removed int
	}{{0, []prefixtest.Range{{From: 0, To: 4}}, 0}, {2, []prefixtest.Range{{From: 2, To: 4}}, 1}, {3, []prefixtest.Range{{From: 3, To: 4}}, 1}}
	for i, want := range wanted {
		r := w.Requests[i]
		if r.Answer != prefixtest.Digest(0, want.lead) || len(r.Removed) != want.removed {
			t.Errorf("request %d: %d removed, answer %x, want %d, %x", i, len(r.Removed), r.Answer, want.removed, prefixtest.Digest(0, want.lead))
		}
		if diff := cmp.Diff(want.stored, r.Stored); diff != "" {
			t.Errorf("request %d stores (-want +got)\n%s", i, diff)
		}
	}
	if second.Removed[0] != first.Chain[3] || third.Removed[0] != second.Chain[3] {
		t.Error("not the ends of the oldest chains were removed")
	}
	var file bytes.Buffer
	if err := w.Write(&file); err != nil {
		t.Fatal(err)
	}
	// Head, then for each request its head, 4 hashes of the chain, the removed and one range.
	if got, want := file.Len(), 16+3*(24+4*8+8)+2*8; got != want {
		t.Errorf("the file has %d bytes, want %d", got, want)
	}
	if workers := binary.LittleEndian.Uint32(file.Bytes()); workers != 1 {
		t.Errorf("the file says %d workers, want 1", workers)
	}
}
