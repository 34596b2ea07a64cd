package prefix

import (
	"math/bits"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// table finds the place of a block by its hash. It is flat and open-addressed in buckets of half a cache line. A
// bucket counts how many blocks had to pass it when they were put: a search ends at the first that none passed, and
// a block can be taken out without leaving a mark.
//
// Only places are kept; the hash of a block is read from its run. When the table grows or shrinks, the old one is
// emptied little by little with the changes, so that no call stalls.
type table struct {
	now    buckets
	old    buckets // being emptied, if any
	moved  int     // buckets of old that are empty
	spare  buckets // for now to become, allocated in time
	blocks int
	pages  *pages
}

// bucket has a tag for each place in the low bytes of meta, 0 where it is free, and in the upper two how many blocks
// passed it.
type bucket struct {
	meta   uint64
	places [bucketPlaces]place
}

type buckets []bucket // a power of two

const (
	bucketPlaces = 6
	bucketBytes  = 32
	// minBuckets have room for the blocks of a run beyond four fifths.
	minBuckets  = 64
	eachTag     = 0x0000_0101_0101_0101
	eachTagHigh = eachTag << 7
	passed      = 1 << 48
)

func newTable(p *pages) table {
	return table{now: make(buckets, minBuckets), pages: p}
}

// scatter spreads hashes that are not random, too.
func scatter(h block.Hash) uint64 {
	const odd = 0x9E37_79B9_7F4A_7C15
	x := (uint64(h) ^ uint64(h)>>32) * odd
	return x ^ x>>29
}

// tagOf is not 0 and of other bits than the bucket.
func tagOf(mix uint64) uint64 { return mix&0xff | 1 }

func (b buckets) home(mix uint64) int { return int(mix >> 8 & uint64(len(b)-1)) }

// matches has the high bit of each byte of meta set that equals the tag.
func (b *bucket) matches(tag uint64) uint64 {
	const rest = eachTagHigh - eachTag
	x := b.meta ^ tag*eachTag
	return ^(x&rest + rest | x) & eachTagHigh
}

// free is the number of a free place; bucketPlaces if there is none.
func (b *bucket) free() int { return min(bits.TrailingZeros64(b.matches(0))>>3, bucketPlaces) }

// find is the place of a block.
func (t *table) find(h block.Hash) (place, bool) {
	mix := scatter(h)
	if p, ok := t.search(t.now, h, mix); ok {
		return p, true
	}
	if t.old != nil {
		return t.search(t.old, h, mix)
	}
	return 0, false
}

func (t *table) search(in buckets, h block.Hash, mix uint64) (place, bool) {
	tag := tagOf(mix)
	for i := in.home(mix); ; i = (i + 1) & (len(in) - 1) {
		b := &in[i]
		for m := b.matches(tag); m != 0; m &= m - 1 {
			if p := b.places[bits.TrailingZeros64(m)>>3]; t.hash(p) == h {
				return p, true
			}
		}
		if b.meta < passed {
			return 0, false
		}
	}
}

func (t *table) hash(p place) block.Hash { return t.pages.at(p.run()).hashes[p.index()] }

// warm fetches what add and remove need of the blocks. The loads do not wait for one another as those of changes do.
func (t *table) warm(hashes []block.Hash) (sum uint64) {
	for _, h := range hashes {
		mix := scatter(h)
		sum += t.now[t.now.home(mix)].meta
		if len(t.old) > 0 {
			sum += t.old[t.old.home(mix)].meta
		}
	}
	return sum
}

// add puts a block whose hash its run has already; it does nothing and returns false if the block has a place. After
// some, the caller settles the table.
func (t *table) add(h block.Hash, p place) bool {
	mix := scatter(h)
	if len(t.old) > 0 {
		if _, ok := t.search(t.old, h, mix); ok {
			return false
		}
	}
	tag := tagOf(mix)
	b := &t.now[t.now.home(mix)]
	if b.matches(tag) != 0 || b.meta >= passed {
		if _, ok := t.search(t.now, h, mix); ok {
			return false
		}
	}
	t.blocks++
	if free := b.free(); free < bucketPlaces {
		b.places[free] = p
		b.meta |= tag << (8 * free)
		return true
	}
	t.now.put(mix, p)
	return true
}

func (b buckets) put(mix uint64, p place) {
	for i := b.home(mix); ; i = (i + 1) & (len(b) - 1) {
		if free := b[i].free(); free < bucketPlaces {
			b[i].places[free] = p
			b[i].meta |= tagOf(mix) << (8 * free)
			return
		}
		b[i].meta += passed
	}
}

// remove takes a block out that is there. After some, the caller settles the table.
func (t *table) remove(h block.Hash, p place) {
	mix := scatter(h)
	b, i, slot := t.entry(mix, p)
	b[i].meta &^= 0xff << (8 * slot)
	for home := b.home(mix); home != i; home = (home + 1) & (len(b) - 1) {
		b[home].meta -= passed
	}
	t.blocks--
}

// move changes the place of a block.
func (t *table) move(h block.Hash, from, to place) {
	b, i, slot := t.entry(scatter(h), from)
	b[i].places[slot] = to
}

// entry is where the table has the place of a block that is there.
func (t *table) entry(mix uint64, p place) (in buckets, bucket, slot int) {
	if i, slot, ok := t.now.entry(mix, p); ok {
		return t.now, i, slot
	}
	i, slot, ok := t.old.entry(mix, p)
	if !ok {
		panic("prefix: a block of a run is not in the table")
	}
	return t.old, i, slot
}

func (b buckets) entry(mix uint64, p place) (bucket, slot int, ok bool) {
	if len(b) == 0 {
		return 0, 0, false
	}
	tag := tagOf(mix)
	for i := b.home(mix); ; i = (i + 1) & (len(b) - 1) {
		for m := b[i].matches(tag); m != 0; m &= m - 1 {
			if slot := bits.TrailingZeros64(m) >> 3; b[i].places[slot] == p {
				return i, slot, true
			}
		}
		if b[i].meta < passed {
			return 0, 0, false
		}
	}
}

// settle keeps the table between three and eight tenths full, after so many changes since the last time, at most
// runBlocks.
func (t *table) settle(changes int) {
	if t.blocks == 0 {
		t.reset()
		return
	}
	if t.old != nil {
		// Two buckets for each change: old is empty before now can be too full.
		for ; changes > 0 && t.old != nil; changes -= emptiedBuckets / 2 {
			t.empty()
		}
	}
	if t.old != nil {
		return
	}
	if n := t.wanted(t.blocks); n != len(t.now) {
		t.old, t.moved = t.now, 0
		if t.now = t.spare; len(t.now) != n {
			t.now = make(buckets, n)
		}
		t.spare = nil
	}
}

// reset gives back what is not needed without blocks.
func (t *table) reset() {
	t.old, t.spare = nil, nil
	if len(t.now) > minBuckets {
		t.now = make(buckets, minBuckets)
	}
}

// wanted is how many buckets the table should have for so many blocks.
func (t *table) wanted(blocks int) int {
	n := len(t.now)
	switch places := n * bucketPlaces; {
	case blocks > places*8/10:
		return 2 * n
	case blocks < places*3/10 && n > minBuckets:
		return n / 2
	}
	return n
}

// prepare allocates what the next step may need to grow, so that it need not while lookups wait.
func (t *table) prepare() {
	if n := t.wanted(t.blocks + stepBlocks); n > len(t.now) && len(t.spare) != n {
		t.spare = make(buckets, n)
	}
}

// emptiedBuckets are emptied together: the loads of their hashes do not wait for one another.
const emptiedBuckets = 8

// empty moves the blocks of some buckets. What passed a bucket stays counted, so that searches go on behind it.
func (t *table) empty() {
	var (
		mixes  [emptiedBuckets * bucketPlaces]uint64
		places [emptiedBuckets * bucketPlaces]place
	)
	n := 0
	from := t.old[t.moved : t.moved+emptiedBuckets]
	for i := range from {
		b := &from[i]
		for m := ^b.matches(0) & eachTagHigh; m != 0; m &= m - 1 {
			places[n] = b.places[bits.TrailingZeros64(m)>>3]
			n++
		}
		b.meta &^= passed - 1
	}
	for i, p := range places[:n] {
		mixes[i] = scatter(t.hash(p))
	}
	for i, p := range places[:n] {
		t.now.put(mixes[i], p)
	}
	if t.moved += emptiedBuckets; t.moved == len(t.old) {
		t.old = nil
	}
}
