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
// emptied a bucket with each change, so that no call stalls.
type table struct {
	now    buckets
	old    buckets // being emptied, if any
	moved  int     // buckets of old that are empty
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
	minBuckets   = 16
	eachTag      = 0x0000_0101_0101_0101
	eachTagHigh  = eachTag << 7
	passed       = 1 << 48
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

// add puts a block whose hash its run has already; it does nothing and returns false if the block has a place.
func (t *table) add(h block.Hash, p place) bool {
	mix := scatter(h)
	if _, ok := t.search(t.now, h, mix); ok {
		return false
	}
	if t.old != nil {
		if _, ok := t.search(t.old, h, mix); ok {
			return false
		}
	}
	t.now.put(mix, p)
	t.blocks++
	t.settle()
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

// remove takes a block out that is there.
func (t *table) remove(h block.Hash, p place) {
	mix := scatter(h)
	b, i, slot := t.entry(mix, p)
	b[i].meta &^= 0xff << (8 * slot)
	for home := b.home(mix); home != i; home = (home + 1) & (len(b) - 1) {
		b[home].meta -= passed
	}
	t.blocks--
	t.settle()
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

// settle keeps the table between an eighth and four fifths full.
func (t *table) settle() {
	if t.old != nil {
		t.empty()
		return
	}
	places := len(t.now) * bucketPlaces
	switch {
	case t.blocks > places*4/5:
		t.resize(2 * len(t.now))
	case t.blocks == 0 && len(t.now) > minBuckets:
		t.now = make(buckets, minBuckets)
	case t.blocks < places/8 && len(t.now) > minBuckets:
		t.resize(len(t.now) / 2)
	}
}

func (t *table) resize(n int) {
	t.old, t.moved = t.now, 0
	t.now = make(buckets, n)
}

// empty moves the blocks of one bucket. What passed a bucket stays counted, so that searches go on behind it.
func (t *table) empty() {
	b := &t.old[t.moved]
	for slot, p := range b.places {
		if b.meta>>(8*slot)&0xff != 0 {
			t.now.put(scatter(t.hash(p)), p)
		}
	}
	b.meta &^= passed - 1
	if t.moved++; t.moved == len(t.old) {
		t.old = nil
	}
}
