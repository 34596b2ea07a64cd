package zmq

import (
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

var exact = cmp.AllowUnexported(batch{}, event{})

func randomEvents(rnd *rand.Rand) (all []event) {
	for range rnd.IntN(5) {
		e := event{tag: []string{tagStored, tagRemoved, tagCleared}[rnd.IntN(3)]}
		if e.tag != tagCleared {
			e.tier = block.Tier(rnd.IntN(block.Tiers))
			for range 1 + rnd.IntN(4) {
				e.hashes = append(e.hashes, hashOf(block.Hash(rnd.Uint64())))
			}
		}
		if e.tag == tagStored {
			e.blockSize = testBlock
			for range len(e.hashes) * testBlock {
				e.tokens = append(e.tokens, sequence.Token(rnd.Uint32()))
			}
			if rnd.IntN(2) == 0 {
				e.parent = hashOf(block.Hash(rnd.Uint64()))
			} else if rnd.IntN(2) == 0 {
				e.lora, e.extra = "l", make([][]string, len(e.hashes))
				e.extra[0] = []string{"l", "salt"}
			}
		}
		all = append(all, e)
	}
	return all
}

func TestBothFormsHoldAnyEvents(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for _, encoding := range []Encoding{Maps, Arrays} {
		for range 300 {
			want := batch{time: float64(now.UnixNano()) / 1e9, rank: 3, events: randomEvents(rnd)}
			got, err := decode(encoder{encoding: encoding, rank: 3, blockTokens: testBlock}.batch(nil, now, want.events))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, exact); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", encoding, diff)
			}
		}
	}
}

// value makes msgpack of plain values.
func value(t *testing.T, v any) []byte {
	t.Helper()
	out, err := msgp.AppendIntf(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type (
	array = []any
	dict  = map[string]any
)

func TestFormsOfOtherVersionsAreUnderstood(t *testing.T) {
	stored := event{tag: tagStored, hashes: []hash{"\x00\x00\x00\x00\x00\x00\x00\x07"}, tokens: []uint32{1, 2}, blockSize: 2}
	for name, tc := range map[string]struct {
		payload any
		want    batch
	}{
		"no rank":       {array{1.5, array{}}, batch{time: 1.5, rank: -1}},
		"a whole time":  {array{3, array{}, nil}, batch{time: 3, rank: -1}},
		"more elements": {array{1.5, array{}, 2, "later"}, batch{time: 1.5, rank: 2}},
		"more keys":     {dict{"later": array{1}, "events": array{}}, batch{rank: -1}},
		"short stored": {array{1.5, array{array{tagStored, array{7}, nil, array{1, 2}, 2}}},
			batch{time: 1.5, rank: -1, events: []event{stored}}},
		"maps in an array": {array{1.5, array{dict{"type": tagStored, "block_hashes": array{7}, "parent_block_hash": nil, "token_ids": array{1, 2}, "block_size": 2, "locality": "LOCAL"}}},
			batch{time: 1.5, rank: -1, events: []event{stored}}},
		"arrays in a map": {dict{"ts": 1.5, "events": array{array{tagCleared}}},
			batch{time: 1.5, rank: -1, events: []event{{tag: tagCleared}}}},
		"bytes and a negative number": {array{1.5, array{array{tagRemoved, array{[]byte("0123456789abcdef0123456789abcdef"), int64(-1)}, "CPU", 2}}},
			batch{time: 1.5, rank: -1, events: []event{{
				tag: tagRemoved, tier: block.Host, group: 2,
				hashes: []hash{"0123456789abcdef0123456789abcdef", "\xff\xff\xff\xff\xff\xff\xff\xff"},
			}}}},
		"another kind": {array{1.5, array{array{"BlockMigrated", 1}, dict{"type": "X", "y": 2}}}, batch{time: 1.5, rank: -1, unknown: 2}},
		"keys that are no text": {array{1.5, array{array{tagStored, array{7}, nil, array{1, 2}, 2, nil, nil, nil, array{array{array{"img", 3}}}}}},
			batch{time: 1.5, rank: -1, events: []event{func() event {
				e := stored
				e.extra = [][]string{{rawKey + `"\x92\xa3img\x03"`}}
				return e
			}()}}},
	} {
		got, err := decode(value(t, tc.payload))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got, exact); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHostileBatchesAreErrors(t *testing.T) {
	store := func(hashes, tokens, size any) any {
		return array{1.5, array{array{tagStored, hashes, nil, tokens, size}}}
	}
	for name, payload := range map[string][]byte{
		"nothing":                  nil,
		"a number":                 value(t, 7),
		"a huge array":             msgp.AppendArrayHeader(nil, math.MaxUint32),
		"a huge map":               msgp.AppendMapHeader(nil, math.MaxUint32),
		"huge events":              msgp.AppendArrayHeader(msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 2), 1), math.MaxUint32),
		"an event without a type":  value(t, array{1.5, array{array{}}}),
		"a type that is a number":  value(t, array{1.5, array{array{1}}}),
		"a negative token":         value(t, store(array{7}, array{-1, 2}, 2)),
		"a token beyond 32 bits":   value(t, store(array{7}, array{int64(1) << 32, 2}, 2)),
		"a negative block size":    value(t, store(array{7}, array{1, 2}, -2)),
		"tokens without a size":    value(t, store(array{7}, array{1, 2}, 0)),
		"too few tokens":           value(t, store(array{7, 8}, array{1, 2}, 2)),
		"a part of a block":        value(t, store(array{7}, array{1, 2, 3}, 2)),
		"text for a list":          value(t, store("7", array{1, 2}, 2)),
		"a hash that is a list":    value(t, store(array{array{7}}, array{1, 2}, 2)),
		"a hash without bytes":     value(t, store(array{[]byte{}}, array{1, 2}, 2)),
		"a hash of too many bytes": value(t, store(array{make([]byte, hashBytesMax+1)}, array{1, 2}, 2)),
		"a negative rank":          value(t, array{1.5, array{}, -1}),
		"bytes after it":           append(value(t, array{1.5, array{}}), 0),
		"too many hashes":          value(t, array{1.5, array{array{tagRemoved, make(array, hashesMax+1)}}}),
	} {
		if b, err := decode(payload); err == nil {
			t.Errorf("%s is taken for %+v", name, b)
		}
	}
}

func FuzzDecode(f *testing.F) {
	rnd := rand.New(rand.NewPCG(5, 5))
	for _, encoding := range []Encoding{Maps, Arrays} {
		for range 4 {
			f.Add(encoder{encoding: encoding, blockTokens: testBlock}.batch(nil, now, randomEvents(rnd)))
		}
	}
	f.Add([]byte{0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decode(data)
		if err != nil {
			return
		}
		sink := newPlain()
		tr := newTranslator(SubscriberConfig{Model: testModel, BlockTokens: testBlock, Blocks: 64}, header().Source, sink, &counters{})
		tr.apply(&b)
		tr.apply(&b)
		if len(tr.known) > 64 || len(tr.held) > 64 {
			t.Errorf("%d entries are known and %d held, want at most 64", len(tr.known), len(tr.held))
		}
	})
}

// FuzzReceive gives a socket any bytes for a peer's.
func FuzzReceive(f *testing.F) {
	greeting := "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x03\x00NULL" + strings.Repeat("\x00", 48)
	ready := "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
	f.Add([]byte(greeting + ready + "\x01\x00\x01\x01a\x00\x02bc"))
	f.Add([]byte(greeting + ready + "\x02\x7f\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte(greeting + "\x04\x06\x05READY"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := shake(&script{rest: data}, subSocket, 1<<12)
		for err == nil {
			var frames [][]byte
			if frames, err = c.receive(); len(frames) > framesMax {
				t.Errorf("%d frames", len(frames))
			}
		}
	})
}

// script is a connection whose other end has said all it will.
type script struct{ rest []byte }

func (s *script) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, net.ErrClosed
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *script) Write(b []byte) (int, error)      { return len(b), nil }
func (s *script) Close() error                     { return nil }
func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

func BenchmarkDecodeAndTranslate(b *testing.B) {
	const blocks = 64
	e := event{tag: tagStored, blockSize: 16}
	for i := range blocks {
		e.hashes = append(e.hashes, hashOf(block.Hash(i)))
	}
	for i := range blocks * 16 {
		e.tokens = append(e.tokens, sequence.Token(i*7919%49152))
	}
	removed := event{tag: tagRemoved, hashes: e.hashes}
	payload := encoder{encoding: Maps, blockTokens: 16}.batch(nil, now, []event{e, removed})
	tr := newTranslator(SubscriberConfig{Model: testModel, BlockTokens: 16, Blocks: 1000}, header().Source, newPlain(), &counters{})
	b.ReportAllocs()
	for b.Loop() {
		batch, err := decode(payload)
		if err != nil {
			b.Fatal(err)
		}
		tr.apply(&batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/blocks, "ns/block")
}
