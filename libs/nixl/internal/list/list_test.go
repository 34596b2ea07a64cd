package list

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/nixl/internal/gate"
)

var (
	self = nixl.PeerID{Name: "prefill", Incarnation: "1"}
	peer = nixl.PeerID{Name: "decode", Incarnation: "1"}
)

const size = 100

func prepared(t testing.TB, of nixl.PeerID, runs ...block.Span) *List {
	t.Helper()
	l, err := New(of, 0, size, runs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRunsOutsideTheRegion(t *testing.T) {
	for _, run := range []block.Span{{Offset: 99, Bytes: 2}, {Offset: 101}, {Offset: -1, Bytes: 1}, {Bytes: -1}, {Offset: 1, Bytes: int(^uint(0) >> 1)}} {
		if _, err := New(peer, 0, size, []block.Span{{Bytes: 1}, run}, nil); !errors.Is(err, nixl.ErrDescriptor) {
			t.Errorf("%+v: got %v, want ErrDescriptor", run, err)
		}
	}
}

func TestAListKeepsItsOwnRuns(t *testing.T) {
	runs := []block.Span{{Bytes: 4}}
	l := prepared(t, peer, runs...)
	runs[0] = block.Span{Offset: 1 << 40, Bytes: 4}
	r, err := Pair(nixl.Write, prepared(t, self, block.Span{Offset: 8, Bytes: 4}), l, []int32{0}, []int32{0})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.At(0), (nixl.Copy{Local: block.Span{Offset: 8, Bytes: 4}, Remote: block.Span{Bytes: 4}}); r.Len() != 1 || got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	l.Release()
	l.Release()
	if l.Len() != 1 {
		t.Fatalf("%d runs", l.Len())
	}
}

func TestSidesOfATransfer(t *testing.T) {
	mine, theirs := prepared(t, self), prepared(t, peer)
	if local, remote, err := Sides(self, nixl.Prepared{Local: mine, Remote: theirs}); err != nil || local != mine || remote != theirs {
		t.Fatal(err)
	}
	for name, p := range map[string]nixl.Prepared{
		"none": {}, "one": {Local: mine}, "exchanged": {Local: theirs, Remote: mine}, "both mine": {Local: mine, Remote: mine},
		"both theirs": {Local: theirs, Remote: theirs}, "another's": {Local: foreign{}, Remote: theirs},
	} {
		if _, _, err := Sides(self, p); !errors.Is(err, nixl.ErrDescriptor) {
			t.Errorf("%s: got %v, want ErrDescriptor", name, err)
		}
	}
}

type foreign struct{}

func (foreign) Len() int { return 0 }
func (foreign) Release() {}

func TestAListIsBoundToItsConnection(t *testing.T) {
	g := new(gate.Gate)
	l, err := New(peer, 3, size, nil, g)
	if err != nil || l.Bound != g || l.Region != 3 || l.Peer != peer {
		t.Fatalf("got %+v, %v", l, err)
	}
}

func TestCopiesAreTheTransfersOwn(t *testing.T) {
	for _, copies := range [][]nixl.Copy{nil, {}} {
		if r := Of(copies); r.Len() != 0 {
			t.Errorf("%d runs of none", r.Len())
		}
	}
	copies := []nixl.Copy{{Local: block.Span{Bytes: 1}, Remote: block.Span{Bytes: 1}}}
	r := Of(copies)
	copies[0] = nixl.Copy{}
	if r.Len() != 1 || r.At(0).Local.Bytes != 1 {
		t.Fatalf("got %+v", r.At(0))
	}
}

// TestPairAgreesWithCheckCopies compares with the check of plain copies, over lists whose
// runs touch, overlap and are empty.
func TestPairAgreesWithCheckCopies(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 3000 {
		lists := [2]*List{}
		for side := range lists {
			runs := make([]block.Span, 1+random.IntN(5))
			for i := range runs {
				runs[i] = block.Span{Offset: 8 * random.IntN(8), Bytes: 4 * random.IntN(3)}
				if random.IntN(2) == 0 { // disjoint as a rule
					runs[i].Offset = 10 * i
				}
			}
			lists[side] = prepared(t, [2]nixl.PeerID{self, peer}[side], runs...)
		}
		op := nixl.Op(random.IntN(2))
		for range 4 { // the marks of the rounds before must not count
			n := random.IntN(4)
			li, ri := make([]int32, n), make([]int32, n)
			copies := make([]nixl.Copy, n)
			for i := range copies {
				li[i], ri[i] = int32(random.IntN(lists[0].Len())), int32(random.IntN(lists[1].Len()))
				copies[i] = nixl.Copy{Local: lists[0].spans[li[i]], Remote: lists[1].spans[ri[i]]}
			}
			r, err := Pair(op, lists[0], lists[1], li, ri)
			want := nixl.CheckCopies(op, copies, size, size)
			if (err == nil) != (want == nil) || err != nil && !errors.Is(err, nixl.ErrDescriptor) {
				t.Fatalf("%s %+v: got %v, want %v", op, copies, err, want)
			}
			if err != nil {
				refused++
				continue
			}
			for i, c := range copies {
				if r.Len() != n || r.At(i) != c {
					t.Fatalf("run %d of %d is %+v, want %+v", i, r.Len(), r.At(i), c)
				}
			}
		}
	}
	if refused < 1000 || refused > 11000 {
		t.Fatalf("%d of 12000 were refused: the cases are one-sided", refused)
	}
}

func TestBadIndices(t *testing.T) {
	mine, theirs := prepared(t, self, block.Span{Bytes: 4}), prepared(t, peer, block.Span{Bytes: 4})
	for name, c := range map[string]struct {
		op     nixl.Op
		li, ri []int32
	}{
		"operation": {7, nil, nil}, "counts": {nixl.Write, []int32{0}, nil}, "local": {nixl.Write, []int32{1}, []int32{0}},
		"remote": {nixl.Write, []int32{0}, []int32{1}}, "negative": {nixl.Read, []int32{-1}, []int32{0}},
	} {
		if _, err := Pair(c.op, mine, theirs, c.li, c.ri); !errors.Is(err, nixl.ErrDescriptor) {
			t.Errorf("%s: got %v, want ErrDescriptor", name, err)
		}
	}
}

func TestRoundsOfDuplicatesWrapAround(t *testing.T) {
	mine, theirs := prepared(t, self, block.Span{Bytes: 4}, block.Span{Bytes: 4}), prepared(t, peer, block.Span{Bytes: 4}, block.Span{Offset: 4, Bytes: 4})
	theirs.marks, theirs.round = []uint32{1, 0}, ^uint32(0)
	for range 3 {
		if _, err := Pair(nixl.Write, mine, theirs, []int32{0, 1}, []int32{0, 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Pair(nixl.Write, mine, theirs, []int32{0, 1}, []int32{1, 1}); !errors.Is(err, nixl.ErrDescriptor) {
		t.Fatalf("got %v, want ErrDescriptor", err)
	}
}

func TestPairAllocatesNothingPerRun(t *testing.T) {
	runs, indices := make([]block.Span, size), make([]int32, size)
	for i := range runs {
		runs[i], indices[i] = block.Span{Offset: i, Bytes: 1}, int32(i)
	}
	mine, theirs := prepared(t, self, runs...), prepared(t, peer, runs...)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Pair(nixl.Write, mine, theirs, indices, indices); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
