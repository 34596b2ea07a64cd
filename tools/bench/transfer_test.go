package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(transport string) TransferConfig {
	return TransferConfig{Transport: transport, BlockBytes: 64 << 10, Blocks: 128, Listen: "127.0.0.1:0", Verify: true, Seconds: 0.02}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// measured runs Transfer and collects its figures by name.
func measured(t *testing.T, c TransferConfig, to string) map[string]float64 {
	t.Helper()
	got := make(map[string]float64)
	err := Transfer(within(t), c, to, func(f Figure) {
		if f.Bench != "transfer" || f.Case != c.Transport {
			t.Errorf("figure %+v", f)
		}
		got[f.Name] = f.Value
	})
	if err != nil {
		t.Fatalf("%s: %v", c.Transport, err)
	}
	return got
}

var figures = []string{"memcpy", "write", "read", "write / memcpy", "make and post 4096 descriptors, p50", "note, p50", "note, p99"}

func checkFigures(t *testing.T, got map[string]float64) {
	t.Helper()
	for _, name := range figures {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
}

func TestEachTransportIsMeasured(t *testing.T) {
	for _, transport := range Transports() {
		t.Run(transport, func(t *testing.T) { checkFigures(t, measured(t, config(transport), "")) })
	}
}

// serving runs Serve until the test ends and answers where.
func serving(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	at, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- Serve(ctx, TransferConfig{Listen: "127.0.0.1:0"}, func(line string) {
			if where, ok := strings.CutPrefix(line, "waiting for a writer at "); ok {
				at <- where
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return <-at
}

func TestAnotherProcessServesTheOtherSide(t *testing.T) {
	to := serving(t)
	for _, transport := range []string{"tcp", "shm", "tcp"} { // one writer after the other
		checkFigures(t, measured(t, config(transport), to))
	}
}

func TestTheOtherSideRefusesWhatItCannotDo(t *testing.T) {
	to := serving(t)
	for wish, want := range map[string]string{
		`{"Transport":"tcp","BlockBytes":2,"Blocks":9000000000}`: "more than",
		`{"Transport":"pigeon","BlockBytes":2,"Blocks":1}`:       `transport is "pigeon"`,
		`{"Transport":"inproc","BlockBytes":2,"Blocks":1}`:       "does not lead to another process",
	} {
		conn, err := net.Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(conn, wish)
		var o offer
		if err := json.NewDecoder(conn).Decode(&o); err != nil || !strings.Contains(o.Error, want) {
			t.Errorf("%s: %+v, %v, want %q", wish, o, err, want)
		}
		conn.Close()
	}
	for _, junk := range []string{"GET / HTTP/1.1\r\n\r\n", strings.Repeat("x", 10000), ""} {
		conn, err := net.Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, junk)
		conn.Close()
	}
	checkFigures(t, measured(t, config("tcp"), to))
}

func TestASecondWriterIsToldToWait(t *testing.T) {
	to := serving(t)
	conn, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(conn, `{"Transport":"tcp","BlockBytes":2,"Blocks":1}`)
	answers := json.NewDecoder(conn)
	var first offer
	if err := answers.Decode(&first); err != nil || first.Error != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	own, err := openHost(config("tcp"), "writer")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = dial(within(t), config("tcp"), own, to)
	if err == nil || !strings.Contains(err.Error(), "another writer is at work") {
		t.Errorf("%v, want that another writer is at work", err)
	}
	if err := own.close(); err != nil {
		t.Error(err)
	}
	conn.Close()
}

// What listens at the address may be no bench at all.
func TestAnotherSideThatIsNoneIsNamed(t *testing.T) {
	for answer, want := range map[string]string{
		"hello\n": "not that of bench transfer",
		"{}\n":    "no metadata",
		`{"Error":"` + strings.Repeat("x", 2*maxOffer): "not that of bench transfer",
	} {
		if err := asked(t, t.Context(), answer); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: %v, want %q", answer, err, want)
		}
	}
	silent, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := asked(t, silent, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silence: %v", err)
	}
}

// asked is the error of asking a host that gives the answer and then stays silent.
func asked(t *testing.T, ctx context.Context, answer string) error {
	t.Helper()
	own, other := net.Pipe()
	var answering sync.WaitGroup
	answering.Go(func() {
		_, _ = bufio.NewReader(other).ReadSlice('\n')
		_, _ = other.Write([]byte(answer))
	})
	defer answering.Wait()
	defer other.Close()
	defer own.Close()
	_, err := ask(ctx, own, wish{Transport: "tcp"})
	return err
}

// Where the other side refuses at once, the agent may be closed before it has begun to run.
func TestAnAgentThatNeverRanClosesInSilence(t *testing.T) {
	for _, transport := range Transports() {
		h := &host{stop: func() {}, ran: make(chan error, 1), folder: t.TempDir()}
		if err := h.open(config(transport), "writer"); err != nil {
			t.Fatal(err)
		}
		if err := h.agent.Close(); err != nil {
			t.Error(err)
		}
		h.ran <- h.agent.Run(t.Context())
		if err := h.close(); err != nil {
			t.Errorf("%s: %v", transport, err)
		}
	}
}

func TestBadConfigurationsAreNamed(t *testing.T) {
	for want, change := range map[string]func(*TransferConfig){
		"transport is":      func(c *TransferConfig) { c.Transport = "x" },
		"block-bytes is":    func(c *TransferConfig) { c.BlockBytes = 3 },
		"blocks is 0":       func(c *TransferConfig) { c.Blocks = 0 },
		"are more than":     func(c *TransferConfig) { c.Blocks = 1 << 40 },
		"seconds is 0":      func(c *TransferConfig) { c.Seconds = 0 },
		"seconds is NaN":    func(c *TransferConfig) { c.Seconds = math.NaN() },
		"seconds is 1e+300": func(c *TransferConfig) { c.Seconds = 1e300 },
	} {
		c := config("tcp")
		change(&c)
		if err := Transfer(within(t), c, "", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
