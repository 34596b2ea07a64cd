package serve

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentilesAreValuesOfTheList(t *testing.T) {
	var list []time.Duration
	for i := range 200 {
		list = append(list, time.Duration(200-i))
	}
	for _, c := range []struct {
		list []time.Duration
		want Times
	}{
		{nil, Times{}},
		{[]time.Duration{7}, Times{7, 7, 7, 7, 7}},
		{[]time.Duration{9, 1}, Times{5, 1, 9, 9, 9}},
		{list, Times{101, 100, 180, 198, 200}}, // the mean is 100.5
	} {
		if diff := cmp.Diff(c.want, timesOf(c.list)); diff != "" {
			t.Errorf("of %d (-want +got):\n%s", len(c.list), diff)
		}
	}
}

func TestStatIsReadWhateverTheNameIs(t *testing.T) {
	got, err := parseStat("7 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 9 0 1 2 3")
	if err != nil || got != 1750*ms {
		t.Errorf("%v, %v, want 175 ticks", got, err)
	}
	for _, bad := range []string{"", "7 (a) R 1", "7 (a) R 1 2 3 4 5 6 7 8 9 10 x 25 0"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	rss, err := parseStatus("Name:\ta\nVmHWM:\t 900 kB\nVmRSS:\t     512 kB\nRssAnon:\t 1 kB\n")
	if err != nil || rss != 512<<10 {
		t.Errorf("%d, %v", rss, err)
	}
	for _, bad := range []string{"Name:\ta\n", "\nVmRSS:\tx kB\n"} {
		if _, err := parseStatus(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestProcessesAreMeasuredOnLinux(t *testing.T) {
	stop, err := watch([]int{os.Getpid()})
	if runtime.GOOS != "linux" {
		if err == nil || !strings.Contains(err.Error(), "wants Linux") {
			t.Errorf("the error is %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if p := stop()[0]; p.Err != nil || p.CPU < 0 || p.RSSBegin < 1<<20 || p.RSSEnd < 1<<20 {
		t.Errorf("%+v", p)
	}
	if _, err := watch([]int{1 << 29}); err == nil || !strings.Contains(err.Error(), "pid is 536870912") {
		t.Errorf("the error is %v", err)
	}
}

// measured is a result with something of all.
func measured() *Result {
	r := &Result{Model: "m", Elapsed: 2 * time.Second, Client: 40 * ms, Limited: 1}
	for i := range 4 {
		r.add(Sample{TTFT: time.Duration(i+1) * ms, TPOT: ms, EndToEnd: 20 * ms, Chunks: 10, Input: 100, Output: 8, Cached: 50}, []time.Duration{ms, ms})
	}
	r.fail(&fault{"timeout", "late"})
	r.Processes = []Process{{PID: 5, CPU: 80 * ms, RSSBegin: 1 << 20, RSSEnd: 2 << 20}, {PID: 6, CPU: 40 * ms}}
	return r
}

func TestFiguresSayWhatOneRequestCost(t *testing.T) {
	cfg := config()
	cfg.Concurrency, cfg.SLOTTFT = 4, 2*ms
	got := map[string]float64{}
	for _, f := range measured().Figures(&cfg) {
		if f.Bench != "serve" || f.Case != "concurrency 4" {
			t.Errorf("%+v", f)
		}
		got[f.Name] = f.Value
	}
	for name, want := range map[string]float64{
		"requests": 4, "failed": 1, "failed: timeout": 1, "answers 429": 1, "throughput": 2, "output": 16, "goodput": 1, "chunks": 40, "cached tokens": 200,
		"TTFT, p50": 0.002, "TTFT, p99": 0.004, "ITL, p90": 0.001, "TPOT, mean": 0.001, "E2E, max": 0.02,
		"pid 5, CPU per request": 20, "pid 5, CPU per chunk": 2000, "pid 5, RSS at the end": 2, "all pids, CPU per request": 30, "pid 6, CPU per output token": 1250, "client, CPU": 0.04,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%q is %v, want %v", name, value, want)
		}
	}
	if _, ok := got["late, p50"]; ok {
		t.Error("a closed loop is late")
	}
}

func TestAProcessThatEndedHasNoCPUTime(t *testing.T) {
	cfg, r := config(), measured()
	r.Processes[1].Err = errors.New("gone")
	for _, f := range r.Figures(&cfg) {
		if strings.Contains(f.Name, "pid 6, CPU") || strings.Contains(f.Name, "all pids") {
			t.Errorf("%+v", f)
		}
	}
}

func TestPrintShowsAll(t *testing.T) {
	cfg := config()
	cfg.Rate, cfg.SLOTTFT = 4, 2*ms
	var out strings.Builder
	if err := measured().Print(&out, &cfg); err != nil {
		t.Fatal(err)
	}
	want := `m, rate 4: 4 requests and 1 failed in 2.00 s
2.0 requests/s, 16 output tokens/s, 200 input tokens/s, 50.0 % of them cached

    ms    mean     p50     p90     p99     max
  TTFT   2.500   2.000   4.000   4.000   4.000
   ITL   1.000   1.000   1.000   1.000   1.000
  TPOT   1.000   1.000   1.000   1.000   1.000
   E2E  20.000  20.000  20.000  20.000  20.000
  late   0.000   0.000   0.000   0.000   0.000

goodput 1.0 requests/s: 2 met the targets
pid 5: RSS 1.0 to 2.0 MiB; CPU 0.08 s, 20.000 ms per request, 2500.00 µs per output token, 2000.00 µs per chunk
pid 6: RSS 0.0 to 0.0 MiB; CPU 0.04 s, 10.000 ms per request, 1250.00 µs per output token, 1000.00 µs per chunk
all pids: CPU 0.12 s, 30.000 ms per request, 3750.00 µs per output token, 3000.00 µs per chunk
this client: CPU 0.04 s, 10.000 ms per request, 1250.00 µs per output token, 1000.00 µs per chunk
1 answers were 429
1 failed: timeout: late
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBarIsALineEachQuarterWithoutATerminal(t *testing.T) {
	var out strings.Builder
	b := &Bar{w: &out}
	b.Show(Progress{Warming: true, Share: 0.9})
	for i := range 11 {
		b.Show(Progress{Ended: i, Failed: i / 5, Share: float64(i) / 10, Elapsed: time.Duration(i) * time.Second})
	}
	b.Clear()
	want := "measuring: 30 %, 3 requests in 3 s\nmeasuring: 50 %, 5 requests in 5 s, 1 failed\nmeasuring: 80 %, 8 requests in 8 s, 1 failed\nmeasuring: 100 %, 10 requests in 10 s, 2 failed\n"
	if out.String() != want {
		t.Errorf("it shows %q", out.String())
	}
	out.Reset()
	b = &Bar{w: &out, terminal: true}
	b.Clear()
	b.Show(Progress{Warming: true, Ended: 5, Share: 0.5, Elapsed: time.Second})
	b.Clear()
	if want := "\r\x1b[Kwarming up [==========          ]  50 %  5 requests in 1 s\r\x1b[K"; out.String() != want {
		t.Errorf("a terminal shows %q", out.String())
	}
}
