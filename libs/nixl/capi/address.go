package capi

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// An address is the base64 of: version and number of regions, 1 byte each; for each
// region its kind (0 DRAM, 1 VRAM), 1 byte, device, 4 bytes, and first byte's address, 8 bytes;
// NIXL's own metadata; crc32c of all that, 4 bytes, since NIXL checks nothing. Numbers are little-endian.
const (
	addressVersion     = 1
	addressRegionBytes = 13
)

// address is what a peer needs beside what all metadata says.
type address struct {
	regions []place
	blob    []byte // NIXL's, opaque
}

// place is where a region begins.
type place struct {
	vram   bool
	device uint32
	base   uint64
}

func (a address) encode() string {
	b := []byte{addressVersion, byte(len(a.regions))}
	for _, r := range a.regions {
		kind := byte(0)
		if r.vram {
			kind = 1
		}
		b = append(b, kind)
		b = binary.LittleEndian.AppendUint32(b, r.device)
		b = binary.LittleEndian.AppendUint64(b, r.base)
	}
	b = append(b, a.blob...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return base64.RawStdEncoding.EncodeToString(b)
}

// parseAddress reads the address of a peer with these regions. What it returns without
// an error can be computed with.
func parseAddress(text string, regions []nixl.RegionInfo) (address, error) {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return address{}, fmt.Errorf("nixl address: %w", err)
	}
	if len(b) < 2+4 {
		return address{}, fmt.Errorf("nixl address: %d bytes", len(b))
	}
	b, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	rest := b[2:]
	switch {
	case crc32.Checksum(b, castagnoli) != sum:
		return address{}, errors.New("nixl address: checksum differs")
	case b[0] != addressVersion:
		return address{}, fmt.Errorf("nixl address: version is %d, want %d", b[0], addressVersion)
	case int(b[1]) != len(regions):
		return address{}, fmt.Errorf("nixl address: places of %d regions, want %d", b[1], len(regions))
	case len(rest) <= addressRegionBytes*len(regions):
		return address{}, fmt.Errorf("nixl address: %d bytes for %d regions", len(rest), len(regions))
	}
	var a address
	for i, info := range regions {
		p := place{vram: rest[0] == 1, device: binary.LittleEndian.Uint32(rest[1:]), base: binary.LittleEndian.Uint64(rest[5:])}
		if rest[0] > 1 || p.device > math.MaxInt32 || p.base == 0 || p.base > math.MaxInt64-uint64(info.Bytes()) {
			return address{}, fmt.Errorf("nixl address: region %d of kind %d, device %d at %#x", i, rest[0], p.device, p.base)
		}
		a.regions, rest = append(a.regions, p), rest[addressRegionBytes:]
	}
	a.blob = rest
	return a, nil
}
