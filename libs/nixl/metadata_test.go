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

func sample() Metadata {
	return Metadata{
		Transport: "shm", Peer: PeerID{"decode-0", "9f2c"}, KVFormat: "sha256:abc", Address: "/run/d.sock",
		Regions: []RegionInfo{{layout, 512}, {block.Layout{BlockTokens: 1, Layers: 1, KVHeads: 1, HeadDim: 1, ElemBytes: 2}, 1}},
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

func TestBadMetadataAreRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Metadata)
		want   string
	}{
		"no name":         {func(m *Metadata) { m.Peer.Name = "" }, "name is empty"},
		"no incarnation":  {func(m *Metadata) { m.Peer.Incarnation = "" }, "incarnation is empty"},
		"long format":     {func(m *Metadata) { m.KVFormat = strings.Repeat("x", 257) }, "KV format has 257 bytes"},
		"no transport":    {func(m *Metadata) { m.Transport = "" }, "transport has 0 bytes"},
		"long address":    {func(m *Metadata) { m.Address = strings.Repeat("x", 1025) }, "address has 1025 bytes"},
		"too many":        {func(m *Metadata) { m.Regions = make([]RegionInfo, MaxRegions+1) }, "17 regions"},
		"no blocks":       {func(m *Metadata) { m.Regions[1].Blocks = 0 }, "region 1: region: blocks is 0"},
		"negative layers": {func(m *Metadata) { m.Regions[0].Layout.Layers = -1 }, "layers is -1"},
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
