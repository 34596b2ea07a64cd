package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/corpus"
	"github.com/switchyard-llm/switchyard/tools/bench/route"
)

// prompt is the text of a request.
func prompt(t *testing.T, body []byte) string {
	t.Helper()
	var b struct{ Messages []struct{ Content string } }
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatal(err)
	}
	return b.Messages[0].Content
}

func TestPromptsDependOnSeedAndNumberOnly(t *testing.T) {
	cfg := config()
	cfg.ISL = Length{shape: "uniform", a: 50, b: 90}
	p, _ := newPrompts(&cfg, "m", 1)
	first, second := prompt(t, p.body(nil, 0)), prompt(t, p.body(nil, 1))
	again, _ := newPrompts(&cfg, "m", 1)
	if got := prompt(t, again.body(nil, 1)); got != second {
		t.Errorf("request 1 is %q when it is first, else %q", got, second)
	}
	if first == second {
		t.Error("two requests are the same")
	}
	other := cfg
	other.Seed = 2
	p, _ = newPrompts(&other, "m", 1)
	if got := prompt(t, p.body(nil, 0)); got == first {
		t.Error("another seed gives the same prompt")
	}
}

func TestPromptsOfAGroupShareTheirPrefix(t *testing.T) {
	cfg := config()
	cfg.PrefixWords, cfg.PrefixGroups, cfg.ISL = 30, 3, FixedLength(20)
	p, _ := newPrompts(&cfg, "m", 1)
	prefixes, all := map[string]int{}, map[string]bool{}
	for i := range 60 {
		words := strings.Fields(prompt(t, p.body(nil, i)))
		if len(words) != 50 {
			t.Fatalf("request %d has %d words", i, len(words))
		}
		prefixes[strings.Join(words[:30], " ")]++
		all[strings.Join(words, " ")] = true
	}
	if len(prefixes) != 3 || len(all) != 60 {
		t.Errorf("%d prefixes and %d prompts", len(prefixes), len(all))
	}
	kept := p.body(nil, 0)
	p.prefixes = nil
	if made := p.body(nil, 0); string(made) != string(kept) {
		t.Error("a prefix that is not kept is another one")
	}
}

func TestProseKeepsItsOrder(t *testing.T) {
	cfg := config()
	cfg.InOrder, cfg.Vocabulary, cfg.ISL = true, strings.Fields("0 1 2 3 4 5 6"), FixedLength(20)
	p, _ := newPrompts(&cfg, "m", 1)
	words := strings.Fields(prompt(t, p.body(nil, 0)))
	for i := 1; i < len(words); i++ {
		if (words[i-1][0]-'0'+1)%7 != words[i][0]-'0' {
			t.Fatalf("words are %v", words)
		}
	}
}

const traceText = `{"timestamp": 0, "input_length": 1200, "output_length": 3, "hash_ids": [70, 71, 72]}
{"timestamp": 0, "input_length": 1536, "output_length": 4, "hash_ids": [70, 71, 75]}
{"timestamp": 4000, "input_length": 512, "output_length": 5, "hash_ids": [70]}
{"timestamp": 6000, "input_length": 900, "output_length": 6, "hash_ids": [80, 81]}
`

func trace(t testing.TB) *route.Trace {
	t.Helper()
	got, err := route.ReadTrace(strings.NewReader(traceText))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEqualPrefixesOfATraceAreEqualTexts(t *testing.T) {
	cfg := config()
	cfg.Trace = trace(t)
	p, _ := newPrompts(&cfg, "m", 0.25) // four tokens a word
	var texts []string
	for i := range cfg.Trace.Requests {
		body := p.body(nil, i)
		if !strings.HasSuffix(string(body), fmt.Sprintf(`"max_tokens":%d}`, i+3)) {
			t.Errorf("request %d ends with %s", i, body[len(body)-30:])
		}
		texts = append(texts, prompt(t, body))
		if got, want := len(strings.Fields(texts[i])), cfg.Trace.Requests[i].InputTokens/4; got != want {
			t.Errorf("request %d has %d words, want %d", i, got, want)
		}
	}
	words := func(text string, n int) string { return strings.Join(strings.Fields(text)[:n], " ") }
	if words(texts[0], 256) != words(texts[1], 256) || words(texts[0], 128) != texts[2] {
		t.Error("requests with the same runs have other texts")
	}
	if words(texts[0], 260) == words(texts[1], 260) || words(texts[3], 10) == words(texts[0], 10) {
		t.Error("requests with other runs have the same text")
	}
}

func TestATraceKeepsItsTimesButForThoseOfOneTick(t *testing.T) {
	at := traceArrivals(trace(t), 2, 1)
	if at[0] > time.Second || at[1] < time.Second || at[1] > 2*time.Second || at[2] != 2*time.Second || at[3] != 3*time.Second {
		t.Errorf("requests arrive at %v", at)
	}
	if diff := cmp.Diff(at, traceArrivals(trace(t), 2, 1)); diff != "" {
		t.Errorf("a seed gives two lists:\n%s", diff)
	}
}

func TestArrivals(t *testing.T) {
	list := func(kind Arrivals, seed uint64) (list []time.Duration) {
		cfg := config()
		cfg.Rate, cfg.Arrivals, cfg.Seed = 50, kind, seed
		next := arrivals(&cfg)
		for range 20_000 {
			list = append(list, next())
		}
		return list
	}
	if got := list(Fixed, 1)[:3]; !cmp.Equal(got, []time.Duration{0, 20 * ms, 40 * ms}) {
		t.Errorf("fixed arrivals are %v", got)
	}
	poisson := list(Poisson, 1)
	if !cmp.Equal(poisson, list(Poisson, 1)) {
		t.Error("a seed gives two lists")
	}
	if cmp.Equal(poisson, list(Poisson, 2)) {
		t.Error("two seeds give one list")
	}
	mean, square := 0.0, 0.0
	for i := range poisson[1:] {
		gap := (poisson[i+1] - poisson[i]).Seconds()
		if gap < 0 {
			t.Fatalf("arrival %d is before the one before", i+1)
		}
		mean += gap / float64(len(poisson)-1)
		square += gap * gap / float64(len(poisson)-1)
	}
	// The deviation of an exponential distribution is its mean.
	if deviation := math.Sqrt(square - mean*mean); math.Abs(mean*50-1) > 0.03 || math.Abs(deviation*50-1) > 0.03 {
		t.Errorf("gaps have mean %v and deviation %v, want 0.02", mean, deviation)
	}
}

func TestLengthsHaveTheMomentsAskedFor(t *testing.T) {
	for _, c := range []struct {
		text            string
		mean, deviation float64
	}{{"200", 200, 0}, {"uniform:100:300", 200, 58}, {"normal:500:50", 500, 50}, {"lognormal:400:300", 400, 300}} {
		l, err := ParseLength(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.validate("isl"); err != nil {
			t.Fatal(err)
		}
		r := corpus.NewRandom(1)
		mean, square := 0.0, 0.0
		const n = 50_000
		for range n {
			x := float64(l.draw(r))
			mean += x / n
			square += x * x / n
		}
		deviation := math.Sqrt(max(0, square-mean*mean))
		if math.Abs(mean/c.mean-1) > 0.02 || math.Abs(deviation-c.deviation) > 0.05*c.deviation+0.01 {
			t.Errorf("%s has mean %v and deviation %v, want %v and %v", c.text, mean, deviation, c.mean, c.deviation)
		}
	}
	wide := Length{shape: "normal", a: 1, b: maxLength}
	for r := corpus.NewRandom(1); r.Uint64()%1000 != 0; {
		if n := wide.draw(r); n < 1 || n > maxLength {
			t.Fatalf("a length is %d", n)
		}
	}
}

func FuzzTracePrompts(f *testing.F) {
	f.Add(traceText, 0.25)
	f.Add(`{"timestamp": 1e3, "input_length": 1, "output_length": 1, "hash_ids": [-1]}`, 3.0)
	f.Fuzz(func(t *testing.T, text string, wordsPerToken float64) {
		if !(wordsPerToken > 0 && wordsPerToken < 4) {
			return
		}
		list, err := route.ReadTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		cfg := config()
		cfg.Trace = list
		p, err := newPrompts(&cfg, "m", wordsPerToken)
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range traceArrivals(list, 1, 1) {
			if at < 0 || i > 0 && at < traceArrivals(list, 1, 1)[i-1] {
				t.Fatalf("request %d arrives at %v", i, at)
			}
			if list.Requests[i].InputTokens > 1<<14 {
				continue // for speed
			}
			if got, want := len(strings.Fields(prompt(t, p.body(nil, i)))), p.words(list.Requests[i].InputTokens); got != want {
				t.Fatalf("request %d has %d words, want %d", i, got, want)
			}
		}
	})
}
