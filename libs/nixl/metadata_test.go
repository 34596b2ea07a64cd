package nixl

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/block"
)

var layout = block.Layout{BlockTokens: 16, Layers: 30, KVHeads: 3, HeadDim: 64, ElemBytes: 4, KeysTransposed: true}

// sharded is one of 16 ranks of which two hold the same head.
var sharded = block.Layout{BlockTokens: 64, Layers: 2, KVHeads: 8, HeadDim: 16, ElemBytes: 2, TokenMajor: true, TPSize: 16, TPRank: 5}

func sample() Metadata {
	return Metadata{
		Transport: "shm", Peer: PeerID{"decode-0", "9f2c"}, KVFormat: "sha256:abc", Address: "/run/d.sock",
		Regions: []RegionInfo{{layout, 512, 3}, {block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: 1, ElemBytes: 2}, 1, 0}, {sharded, 7, 0}},
	}
}

func TestMetadataSurviveTheirEncoding(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseMetadata(data)
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Fatalf("got %+v, %v, want %+v", got, err, sample())
	}
}

func TestFieldsOfALaterVersionAreIgnored(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	later := strings.Replace(string(data), `{"switchyard_nixl":1,`, `{"switchyard_nixl":1,"numa":3,`, 1)
	if got, err := ParseMetadata([]byte(later)); err != nil || !reflect.DeepEqual(got, sample()) {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestRegionsOfPeersWithoutRanksHoldAllHeads(t *testing.T) {
	old := `{"switchyard_nixl":1,"transport":"shm","name":"a","incarnation":"b","kv_format":"c","regions":[` +
		`{"block_tokens":16,"layers":30,"kv_heads":3,"head_dim":64,"elem_bytes":4,"keys_transposed":true,"blocks":512}]}`
	m, err := ParseMetadata([]byte(old))
	if err != nil || len(m.Regions) != 1 || m.Regions[0] != (RegionInfo{layout, 512, 0}) || layout.LocalHeads() != 3 {
		t.Fatalf("got %+v, %v", m, err)
	}
	if again, err := m.Encode(); err != nil || string(again) != old {
		t.Fatalf("a region of one rank is published otherwise than before: %s, %v", again, err)
	}
}

func TestRegionOfOneRankHoldsItsHeadsOnly(t *testing.T) {
	if got := (RegionInfo{sharded, 7, 0}).Bytes(); got != 7*64*2*2*1*16*2 {
		t.Fatalf("got %d bytes", got)
	}
}

func TestBadMetadataAreRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Metadata)
		want   string
	}{
		"no name":         {func(m *Metadata) { m.Peer.Name = "" }, "name is empty"},
		"no incarnation":  {func(m *Metadata) { m.Peer.Incarnation = "" }, "incarnation is empty"},
		"long format":     {func(m *Metadata) { m.KVFormat = strings.Repeat("x", 257) }, "KV format has 257 bytes"},
		"no transport":    {func(m *Metadata) { m.Transport = "" }, "transport has 0 bytes"},
		"long address":    {func(m *Metadata) { m.Address = strings.Repeat("x", maxAddressBytes+1) }, "address has 32769 bytes"},
		"too many":        {func(m *Metadata) { m.Regions = make([]RegionInfo, MaxRegions+1) }, "17 regions"},
		"no blocks":       {func(m *Metadata) { m.Regions[1].Blocks = 0 }, "region 1: region: blocks is 0"},
		"negative layers": {func(m *Metadata) { m.Regions[0].Layout.Layers = -1 }, "layers is -1"},
		"no such rank":    {func(m *Metadata) { m.Regions[2].Layout.TPRank = 16 }, "TP rank is 16, want 0 to 15"},
		"too many ranks":  {func(m *Metadata) { m.Regions[2].Layout.TPSize = math.MaxInt }, "TP size is"},
		"heads overflow":  {func(m *Metadata) { m.Regions[2].Layout.KVHeads = math.MaxInt &^ 15 }, "exceed"},
		"beyond memory":   {func(m *Metadata) { m.Regions[0].Blocks = 1 << 40 }, "exceed"},
		"overflow":        {func(m *Metadata) { m.Regions[0].Blocks = math.MaxInt }, "exceed"},
	} {
		m := sample()
		c.change(&m)
		if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"":                         "unexpected end",
		`{"switchyard_nixl":2}`:    "version is 2, want 1",
		`{}`:                       "version is 0",
		strings.Repeat(" ", 1<<17): "bytes, want at most",
	} {
		if _, err := ParseMetadata([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: got %v, want %q", text, err, want)
		}
	}
}

func TestAnotherTransportIsUnreachable(t *testing.T) {
	peer := sample()
	peer.Transport, peer.Peer.Name = "tcp", "other"
	if err := sample().Compatible(peer); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), `"tcp"`) {
		t.Fatalf("got %v", err)
	}
}

func FuzzParseMetadata(f *testing.F) {
	data, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"switchyard_nixl":1,"transport":"shm","name":"a","incarnation":"b","kv_format":"c","regions":[{"blocks":9223372036854775807}]}`))
	f.Add([]byte(`{"switchyard_nixl":1,"transport":"shm","name":"a","incarnation":"b","kv_format":"c","regions":[{"block_tokens":1,"layers":1,` +
		`"kv_heads":9223372036854710272,"head_dim":1,"elem_bytes":1,"tp_size":65536,"tp_rank":65535,"blocks":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMetadata(data)
		if err != nil {
			return
		}
		for _, r := range m.Regions {
			if n := r.Bytes(); n <= 0 || n > maxRegionBytes {
				t.Fatalf("region of %d bytes: %+v", n, r)
			}
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("parsed metadata cannot be encoded: %v", err)
		}
		if back, err := ParseMetadata(again); err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%+v became %+v, %v", m, back, err)
		}
	})
}
