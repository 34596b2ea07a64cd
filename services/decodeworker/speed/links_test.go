package speed

import (
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl/link"
	"github.com/switchyard-llm/switchyard/services/decodeworker/disagg"
)

func the(t *testing.T, l *Learner, now time.Time, prefillWorker string) Link {
	t.Helper()
	for _, one := range l.Links(now) {
		if one.PrefillWorker == prefillWorker {
			return one
		}
	}
	t.Fatalf("no link of %s", prefillWorker)
	return Link{}
}

func TestADecisionGoesByTheMeanOverTheProbesUntilTransfersTell(t *testing.T) {
	l := New(DefaultStart(16, 128))
	want := func(what string, bytesPerSecond float64, latency time.Duration) {
		t.Helper()
		s := l.Speeds(epoch)
		near(t, what+": the bandwidth", s.LinkBytesPerSecond, bytesPerSecond, 0.001)
		near(t, what+": the latency", s.LinkLatency.Seconds(), latency.Seconds(), 0.001)
	}
	want("at first", 1e9, 100*time.Microsecond)
	l.Reached(epoch, "p", link.SameHost)
	want("by its class", 7.9e9, 25*time.Microsecond)
	l.Probed(epoch, "p", link.Estimate{BytesPerSecond: 1e8, Latency: 3 * time.Millisecond})
	want("probed", 1e8, 3*time.Millisecond)
	l.Reached(epoch, "q", link.Network)
	l.Probed(epoch, "q", link.Estimate{BytesPerSecond: 3e8, Latency: time.Millisecond})
	want("of two", 1.5e8, 2*time.Millisecond) // of the times per byte
	l.Probed(epoch, "nobody", link.Estimate{BytesPerSecond: 1, Latency: time.Hour})
	want("of one that was not reached", 1.5e8, 2*time.Millisecond)
	l.Left("q")
	want("of the one left", 1e8, 3*time.Millisecond)
	for range 60 {
		l.Remote(epoch, facts(100, l.Speeds(epoch)), &disagg.Decision{}, HandOff{
			PrefillWorker: "p", Compute: time.Second, Transfer: 4 * time.Millisecond, Bytes: 8e6, ComputedTokens: 100, Whole: 2 * time.Second,
		})
	}
	near(t, "after transfers: the bandwidth", l.Speeds(epoch).LinkBytesPerSecond, 2e9, 0.02)
	l.Probed(epoch, "p", link.Estimate{BytesPerSecond: 5e7, Latency: time.Millisecond})
	near(t, "of a later probe: the bandwidth", l.Speeds(epoch).LinkBytesPerSecond, 2e9, 0.02)
	near(t, "a day later: the bandwidth", l.Speeds(epoch.Add(24*time.Hour)).LinkBytesPerSecond, 5e7, 0.01)
	l.Left("p")
	near(t, "a day later, with nobody: the bandwidth", l.Speeds(epoch.Add(24*time.Hour)).LinkBytesPerSecond, 1e9, 0.01)
}

func TestALinkSaysWhereItIsKnownFrom(t *testing.T) {
	l := New(DefaultStart(16, 128))
	check := func(now time.Time, class link.Class, by Source, bytesPerSecond float64) {
		t.Helper()
		got := the(t, l, now, "p")
		if got.Class != class || got.MeasuredBy != by {
			t.Errorf("the link is %+v, want %v by %v", got, class, by)
		}
		near(t, "its bandwidth", got.BytesPerSecond, bytesPerSecond, 0.1)
	}
	l.Reached(epoch, "p", link.SameHost)
	check(epoch, link.SameHost, ByStart, 7.9e9)
	l.Probed(epoch, "p", link.Estimate{BytesPerSecond: 3e9, Latency: time.Microsecond})
	check(epoch, link.SameHost, ByProbe, 3e9)
	for range 3 {
		l.links.add(epoch, "p", 8e6, 80*time.Millisecond)
	}
	check(epoch, link.SameHost, ByTransfers, 1e8)
	l.Probed(epoch, "p", link.Estimate{BytesPerSecond: 4e9, Latency: time.Microsecond})
	check(epoch, link.SameHost, ByTransfers, 1e8)
	check(epoch.Add(time.Hour), link.SameHost, ByProbe, 4e9)
	l.Reached(epoch, "p", link.Network) // another life, elsewhere
	check(epoch.Add(time.Hour), link.Network, ByStart, 2.9e9)
	l.Left("p")
	if links := l.Links(epoch); len(links) > 0 {
		t.Errorf("remembers %+v", links)
	}
}
