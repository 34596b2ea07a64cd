package capi

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

func sample() frame {
	return frame{
		kind: note, adder: true, sender: nixl.PeerID{Name: "prefill-0", Incarnation: "9f2c"},
		link: 7, number: 1 << 40, taken: 3, payload: []byte("first token 17"),
	}
}

func TestFrameSurvivesItsEncoding(t *testing.T) {
	for _, f := range []frame{
		sample(),
		{kind: alive, sender: nixl.PeerID{Name: strings.Repeat("n", maxIDBytes), Incarnation: strings.Repeat("i", maxIDBytes)}, payload: []byte{}},
		{kind: note, sender: nixl.PeerID{Name: "a", Incarnation: "b"}, payload: make([]byte, nixl.MaxNoteBytes)},
	} {
		got, err := parseFrame(f.encode())
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Fatalf("got %+v, %v, want %+v", got, err, f)
		}
	}
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	whole := sample().encode()
	for bit := range len(whole) * 8 {
		bad := bytes.Clone(whole)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := parseFrame(bad); !errors.Is(err, errFrame) {
			t.Fatalf("bit %d: got %v", bit, err)
		}
	}
}

func TestFramesThatCannotBeAreRefused(t *testing.T) {
	for name, change := range map[string]func(*frame){
		"no name":          func(f *frame) { f.sender.Name = "" },
		"no incarnation":   func(f *frame) { f.sender.Incarnation = "" },
		"a long name":      func(f *frame) { f.sender.Name = strings.Repeat("n", maxIDBytes+1) },
		"an unknown kind":  func(f *frame) { f.kind = alive + 1 },
		"no kind":          func(f *frame) { f.kind = 0 },
		"a note too large": func(f *frame) { f.payload = make([]byte, nixl.MaxNoteBytes+1) },
	} {
		f := sample()
		change(&f)
		if _, err := parseFrame(f.encode()); !errors.Is(err, errFrame) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	f.Add(sample().encode())
	f.Add([]byte{})
	f.Add(make([]byte, headerBytes))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseFrame(data)
		if err != nil {
			return
		}
		if again := got.encode(); !bytes.Equal(again, data) {
			t.Fatalf("%x was read as %+v", data, got)
		}
	})
}
