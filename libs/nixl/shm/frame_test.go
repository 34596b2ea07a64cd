//go:build linux

package shm

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

func TestFrameSurvivesItsEncoding(t *testing.T) {
	for _, size := range []int{0, 1, 300, maxPayloadBytes} {
		payload := bytes.Repeat([]byte{0xa5}, size)
		r := bytes.NewReader(appendFrame(appendFrame(nil, note, payload), goodbye, nil))
		k, got, err := readFrame(r)
		if err != nil || k != note || !bytes.Equal(got, payload) {
			t.Fatalf("%d bytes: type %d, %v", size, k, err)
		}
		if k, got, err := readFrame(r); err != nil || k != goodbye || len(got) != 0 {
			t.Fatalf("second frame: type %d, %v", k, err)
		}
		if _, _, err := readFrame(r); err != io.EOF {
			t.Fatalf("end of the stream: %v", err)
		}
	}
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	frame := appendFrame(nil, note, []byte("first token 17"))
	for bit := range len(frame) * 8 {
		bad := bytes.Clone(frame)
		bad[bit/8] ^= 1 << (bit % 8)
		_, _, err := readFrame(bytes.NewReader(bad))
		// A longer length shows as an end within the payload.
		if !errors.Is(err, errFrame) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("bit %d: got %v", bit, err)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(appendFrame(nil, note, []byte("payload")))
	f.Add(appendFrame(nil, 9, nil))
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		k, payload, err := readFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		if again := appendFrame(nil, k, payload); !bytes.HasPrefix(data, again) {
			t.Fatalf("%x was read as type %d, %x", data, k, payload)
		}
	})
}

func FuzzGreeting(f *testing.F) {
	own := nixl.Metadata{Transport: transport, Peer: nixl.PeerID{Name: "a", Incarnation: "1"}, KVFormat: "f"}
	f.Add([]byte(`{"version":1,"wants":{"Name":"a","Incarnation":"1"},"metadata":{"switchyard_nixl":1,"transport":"shm","name":"b","incarnation":"2","kv_format":"f"}}`))
	f.Add([]byte(`{"code":"mismatch","mismatch":{"Field":"layers"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := checkGreeting(data, own); err == nil && (m.Peer == own.Peer || m.KVFormat != "f") {
			t.Fatalf("%s was taken as a peer", data)
		}
		if decodeRefusal(data) == nil {
			t.Fatal("a refusal without an error")
		}
	})
}

func TestErrorsKeepTheirIdentityAcrossARefusal(t *testing.T) {
	for _, want := range []error{nixl.ErrFenced, nixl.ErrUnknownPeer, nixl.ErrGone, nixl.ErrUnreachable} {
		payload, err := encodeRefusal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := decodeRefusal(payload); !errors.Is(got, want) {
			t.Errorf("%v became %v", want, got)
		}
	}
	payload, err := encodeRefusal(&nixl.MismatchError{Field: "layers", Local: "30", Remote: "32"})
	if err != nil {
		t.Fatal(err)
	}
	var m *nixl.MismatchError
	if got := decodeRefusal(payload); !errors.As(got, &m) || *m != (nixl.MismatchError{Field: "layers", Local: "32", Remote: "30"}) {
		t.Errorf("got %v, want the sides exchanged", got)
	}
}
