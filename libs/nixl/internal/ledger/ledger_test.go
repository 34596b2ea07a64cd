package ledger

import (
	"strconv"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

func TestTotalsStayCompleteWhenOldPeersAreForgotten(t *testing.T) {
	var l Ledger
	for i := range maxPeers + 10 {
		peer := nixl.PeerID{Name: "prefill", Incarnation: strconv.Itoa(i)}
		l.Add(peer, nixl.Counters{BytesWritten: 2, NotesSent: 1})
		l.Add(peer, nixl.Counters{BytesRead: 1})
	}
	l.Refused()
	s := l.Stats()
	n := uint64(maxPeers + 10)
	if want := (nixl.Counters{BytesWritten: 2 * n, BytesRead: n, NotesSent: n, NotesRefused: 1}); s.Counters != want {
		t.Fatalf("got %+v, want %+v", s.Counters, want)
	}
	if _, first := s.Peers[nixl.PeerID{Name: "prefill", Incarnation: "9"}]; first || len(s.Peers) != maxPeers {
		t.Fatalf("%d peers, the tenth kept: %t", len(s.Peers), first)
	}
	last := nixl.PeerID{Name: "prefill", Incarnation: strconv.Itoa(maxPeers + 9)}
	if got := s.Peers[last]; got != (nixl.Counters{BytesWritten: 2, BytesRead: 1, NotesSent: 1}) {
		t.Fatalf("the last peer: %+v", got)
	}
}
