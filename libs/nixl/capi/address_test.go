package capi

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"math"
	"reflect"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/nixl"
)

var twoRegions = []nixl.RegionInfo{
	{Layout: block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: 32, ElemBytes: 1}, Blocks: 4},
	{Layout: block.Layout{BlockTokens: 2, Layers: 1, KVHeads: 1, HeadDim: 32, ElemBytes: 1}, Blocks: 8},
}

func sampleAddress() address {
	return address{regions: []place{{base: 0x7f0000001000}, {vram: true, device: 3, base: 0x200000}}, blob: []byte("what NIXL says")}
}

func TestAddressSurvivesItsEncoding(t *testing.T) {
	got, err := parseAddress(sampleAddress().encode(), twoRegions)
	if err != nil || !reflect.DeepEqual(got, sampleAddress()) {
		t.Fatalf("got %+v, %v, want %+v", got, err, sampleAddress())
	}
}

func TestAddressesThatCannotBeAreRefused(t *testing.T) {
	for name, change := range map[string]func(*address){
		"a region too few":    func(a *address) { a.regions = a.regions[:1] },
		"no metadata":         func(a *address) { a.blob = nil },
		"no memory":           func(a *address) { a.regions[0].base = 0 },
		"memory past the end": func(a *address) { a.regions[1].base = math.MaxInt64 - 10 },
		"a device too many":   func(a *address) { a.regions[1].device = 1 << 31 },
	} {
		a := sampleAddress()
		change(&a)
		if got, err := parseAddress(a.encode(), twoRegions); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for _, text := range []string{"", "AQ", "!", "AAAAAAAAAAAAAAAA"} {
		if got, err := parseAddress(text, nil); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestChangedAddressIsSeen(t *testing.T) {
	b, err := base64.RawStdEncoding.DecodeString(sampleAddress().encode())
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 4
		if got, err := parseAddress(base64.RawStdEncoding.EncodeToString(b), twoRegions); err == nil {
			t.Fatalf("byte %d: got %+v", i, got)
		}
		b[i] ^= 4
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add([]byte(sampleAddress().encode()))
	f.Add([]byte{addressVersion, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		// As it is, and as the body of an address whose checksum is right.
		sealed := binary.LittleEndian.AppendUint32(append([]byte(nil), data...), crc32.Checksum(data, castagnoli))
		for _, text := range []string{string(data), base64.RawStdEncoding.EncodeToString(sealed)} {
			a, err := parseAddress(text, twoRegions)
			if err != nil {
				continue
			}
			for i, r := range a.regions {
				if r.base == 0 || r.base+uint64(twoRegions[i].Bytes()) > math.MaxInt64 {
					t.Fatalf("%q: region %d at %#x", text, i, r.base)
				}
			}
			if again, err := parseAddress(a.encode(), twoRegions); err != nil || !reflect.DeepEqual(a, again) {
				t.Fatalf("%q was read as %+v, then as %+v, %v", text, a, again, err)
			}
		}
	})
}
