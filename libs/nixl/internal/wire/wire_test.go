package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

func TestFrameSurvivesItsEncoding(t *testing.T) {
	for _, size := range []int{0, 1, 300, MaxPayloadBytes} {
		payload := bytes.Repeat([]byte{0xa5}, size)
		r := bytes.NewReader(Append(Append(nil, Note, payload), Goodbye, nil))
		k, got, err := Read(r)
		if err != nil || k != Note || !bytes.Equal(got, payload) {
			t.Fatalf("%d bytes: type %d, %v", size, k, err)
		}
		if k, got, err := Read(r); err != nil || k != Goodbye || len(got) != 0 {
			t.Fatalf("second frame: type %d, %v", k, err)
		}
		if _, _, err := Read(r); err != io.EOF {
			t.Fatalf("end of the stream: %v", err)
		}
	}
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	frame := Append(nil, Note, []byte("first token 17"))
	for bit := range len(frame) * 8 {
		bad := bytes.Clone(frame)
		bad[bit/8] ^= 1 << (bit % 8)
		_, _, err := Read(bytes.NewReader(bad))
		// A longer length shows as an end within the payload.
		if !errors.Is(err, ErrFrame) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("bit %d: got %v", bit, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(Append(nil, Note, []byte("payload")))
	f.Add(Append(nil, 9, nil))
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		k, payload, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		if again := Append(nil, k, payload); !bytes.HasPrefix(data, again) {
			t.Fatalf("%x was read as type %d, %x", data, k, payload)
		}
	})
}

func FuzzGreeting(f *testing.F) {
	own := nixl.Metadata{Transport: "shm", Peer: nixl.PeerID{Name: "a", Incarnation: "1"}, KVFormat: "f"}
	f.Add([]byte(`{"version":1,"wants":{"Name":"a","Incarnation":"1"},"metadata":{"switchyard_nixl":1,"transport":"shm","name":"b","incarnation":"2","kv_format":"f"}}`))
	f.Add([]byte(`{"code":"mismatch","mismatch":{"Field":"layers"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var g Greeting
		if json.Unmarshal(data, &g) == nil {
			if m, err := g.Check(own, 1); err == nil && (m.Peer == own.Peer || m.KVFormat != "f") {
				t.Fatalf("%s was taken as a peer", data)
			}
		}
		if DecodeRefusal(data) == nil {
			t.Fatal("a refusal without an error")
		}
	})
}

func TestErrorsKeepTheirIdentityAcrossARefusal(t *testing.T) {
	for _, want := range []error{nixl.ErrFenced, nixl.ErrUnknownPeer, nixl.ErrGone, nixl.ErrUnreachable} {
		payload, err := EncodeRefusal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := DecodeRefusal(payload); !errors.Is(got, want) {
			t.Errorf("%v became %v", want, got)
		}
	}
	payload, err := EncodeRefusal(&nixl.MismatchError{Field: "layers", Local: "30", Remote: "32"})
	if err != nil {
		t.Fatal(err)
	}
	var m *nixl.MismatchError
	if got := DecodeRefusal(payload); !errors.As(got, &m) || *m != (nixl.MismatchError{Field: "layers", Local: "32", Remote: "30"}) {
		t.Errorf("got %v, want the sides exchanged", got)
	}
}

// TestTextsOfARefusalAreBounded whichever side is the one that cannot be trusted.
func TestTextsOfARefusalAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 20<<10)
	payload, err := EncodeRefusal(errors.New(long))
	if err != nil || len(payload) > 2*maxTextBytes || !utf8.Valid(payload) {
		t.Fatalf("%d bytes, %v", len(payload), err)
	}
	for _, r := range []refused{
		{Code: "unreachable", Text: long},
		{Code: "mismatch", Mismatch: &nixl.MismatchError{Field: long, Local: long, Remote: long}},
	} {
		if payload, err = json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		if text := DecodeRefusal(payload).Error(); len(text) > 4*maxTextBytes || !utf8.ValidString(text) {
			t.Errorf("%s: %d bytes", r.Code, len(text))
		}
	}
}
