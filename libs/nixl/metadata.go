package nixl

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"github.com/switchyard-llm/switchyard/libs/block"
)

// Bounds of metadata, which come from other processes.
const (
	metadataVersion  = 1
	maxMetadataBytes = 64 << 10
	maxAddressBytes  = 32 << 10
	maxRegionBytes   = 1 << 46
)

// Metadata is what an agent publishes of itself.
type Metadata struct {
	// Transport is the name of the transport, such as "shm".
	Transport string
	Peer      PeerID
	KVFormat  string
	// Address is where the transport finds the agent; for shm the path of its socket.
	Address string
	// Regions are in the order of their ids.
	Regions []RegionInfo
}

// RegionInfo describes a peer's region.
type RegionInfo struct {
	Layout block.Layout
	Blocks int
	// Epoch is Region.Epoch when this was said.
	Epoch uint64
}

// Bytes is the size of the region. It is meaningful after Validate.
func (r RegionInfo) Bytes() int { return r.Layout.BlockBytes() * r.Blocks }

// Validate reports the first field that cannot be, or a size beyond any memory.
func (r RegionInfo) Validate() error {
	if err := r.Layout.Validate(); err != nil {
		return err
	}
	if r.Blocks < 1 {
		return fmt.Errorf("region: blocks is %d, want at least 1", r.Blocks)
	}
	size := uint64(2)
	for _, n := range []int{r.Layout.BlockTokens, r.Layout.Layers, r.Layout.LocalHeads(), r.Layout.HeadDim, r.Layout.ElemBytes, r.Blocks} {
		hi, lo := bits.Mul64(size, uint64(n))
		if hi != 0 || lo > maxRegionBytes {
			return fmt.Errorf("region: %d blocks of layout %+v exceed %d bytes", r.Blocks, r.Layout, uint64(maxRegionBytes))
		}
		size = lo
	}
	return nil
}

// wire is the published form. Fields may be added to it; a change of meaning
// takes a new version.
type wire struct {
	Version     int          `json:"switchyard_nixl"`
	Transport   string       `json:"transport"`
	Name        string       `json:"name"`
	Incarnation string       `json:"incarnation"`
	KVFormat    string       `json:"kv_format"`
	Address     string       `json:"address,omitempty"`
	Regions     []wireRegion `json:"regions"`
}

type wireRegion struct {
	BlockTokens    int  `json:"block_tokens"`
	Layers         int  `json:"layers"`
	KVHeads        int  `json:"kv_heads"`
	HeadDim        int  `json:"head_dim"`
	ElemBytes      int  `json:"elem_bytes"`
	KeysTransposed bool `json:"keys_transposed,omitempty"`
	// Peers without the next three are head-major and hold all heads.
	TokenMajor bool `json:"token_major,omitempty"`
	TPSize     int  `json:"tp_size,omitempty"`
	TPRank     int  `json:"tp_rank,omitempty"`
	Blocks     int  `json:"blocks"`
	// Without it the memory never moves.
	Epoch uint64 `json:"epoch,omitempty"`
}

// Encode gives the published form: JSON that carries its version.
func (m Metadata) Encode() ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	w := wire{metadataVersion, m.Transport, m.Peer.Name, m.Peer.Incarnation, m.KVFormat, m.Address, nil}
	for _, r := range m.Regions {
		l := r.Layout
		w.Regions = append(w.Regions, wireRegion{l.BlockTokens, l.Layers, l.KVHeads, l.HeadDim, l.ElemBytes,
			l.KeysTransposed, l.TokenMajor, l.TPSize, l.TPRank, r.Blocks, r.Epoch})
	}
	return json.Marshal(w)
}

// ParseMetadata reads what Encode gave. It trusts nothing: whatever it returns
// without an error is within bounds.
func ParseMetadata(data []byte) (Metadata, error) {
	if len(data) > maxMetadataBytes {
		return Metadata{}, fmt.Errorf("nixl metadata: %d bytes, want at most %d", len(data), maxMetadataBytes)
	}
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return Metadata{}, fmt.Errorf("nixl metadata: %.256s", err.Error()) // it may quote all of a long number
	}
	if w.Version != metadataVersion {
		return Metadata{}, fmt.Errorf("nixl metadata: version is %d, want %d", w.Version, metadataVersion)
	}
	m := Metadata{w.Transport, PeerID{w.Name, w.Incarnation}, w.KVFormat, w.Address, nil}
	for _, r := range w.Regions {
		m.Regions = append(m.Regions, RegionInfo{
			block.Layout{BlockTokens: r.BlockTokens, Layers: r.Layers, KVHeads: r.KVHeads,
				HeadDim: r.HeadDim, ElemBytes: r.ElemBytes, KeysTransposed: r.KeysTransposed,
				TokenMajor: r.TokenMajor, TPSize: r.TPSize, TPRank: r.TPRank},
			r.Blocks, r.Epoch})
	}
	return m, m.validate()
}

func (m Metadata) validate() error {
	if err := checkNames(m.Peer.Name, m.Peer.Incarnation, m.KVFormat); err != nil {
		return err
	}
	switch {
	case m.Transport == "" || len(m.Transport) > maxNameBytes:
		return fmt.Errorf("nixl metadata: transport has %d bytes, want 1 to %d", len(m.Transport), maxNameBytes)
	case len(m.Address) > maxAddressBytes:
		return fmt.Errorf("nixl metadata: address has %d bytes, want at most %d", len(m.Address), maxAddressBytes)
	case len(m.Regions) > MaxRegions:
		return fmt.Errorf("nixl metadata: %d regions, want at most %d", len(m.Regions), MaxRegions)
	}
	for i, r := range m.Regions {
		if err := r.Validate(); err != nil {
			return fmt.Errorf("nixl metadata: region %d: %w", i, err)
		}
	}
	return nil
}

// Compatible reports, as a *MismatchError, in what the peer's KV blocks differ from
// ours. Layouts may differ: who moves blocks maps them.
func (m Metadata) Compatible(peer Metadata) error {
	if m.Transport != peer.Transport {
		return fmt.Errorf("%w: it uses transport %q, not %q", ErrUnreachable, peer.Transport, m.Transport)
	}
	if m.Peer == peer.Peer {
		return errors.New("nixl: an agent cannot be its own peer")
	}
	if m.KVFormat != peer.KVFormat {
		return &MismatchError{"KV format", fmt.Sprintf("%q", m.KVFormat), fmt.Sprintf("%q", peer.KVFormat)}
	}
	return nil
}
