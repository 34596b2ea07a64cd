package config

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type level int

func (l *level) UnmarshalText(text []byte) error {
	switch string(text) {
	case "low":
		*l = 1
	case "high":
		*l = 2
	default:
		return fmt.Errorf("want low or high")
	}
	return nil
}

type queue struct {
	AckWait time.Duration `yaml:"ack_wait" help:"how long a worker may be silent"`
	MaxJobs int           `yaml:"max_jobs" help:"bound of the queue"`
}

type logging struct {
	Level level `yaml:"level" help:"low or high"`
}

type example struct {
	Listen    string   `yaml:"listen" help:"address of the gRPC server"`
	Endpoints []string `yaml:"endpoints" help:"where etcd listens"`
	Poison    bool     `yaml:"poison" help:"fill reserved blocks with NaN"`
	Ratio     float64  `yaml:"ratio" help:"a share"`
	Workers   uint8    `yaml:"workers" help:"how many"`
	Queue     queue    `yaml:"queue"`
	Logging   logging  `yaml:",inline"`
}

func defaults() example {
	return example{Listen: ":1", Ratio: 0.5, Queue: queue{AckWait: time.Second, MaxJobs: 7}}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFlagsOverrideTheEnvironmentWhichOverridesTheFile(t *testing.T) {
	file := write(t, "listen: file\nendpoints: [a, b]\nratio: 0.25\nqueue:\n  ack_wait: 10s\n  max_jobs: 3\nlevel: low\n")
	env := []string{"SWITCHYARD_QUEUE_ACK_WAIT=20s", "SWITCHYARD_RATIO=0.75", "SWITCHYARD_ENDPOINTS=c, d", "HOME=/x"}
	got := defaults()
	args := []string{"--config", file, "--poison", "--queue-ack-wait=30s", "--level", "high", "-workers=200"}
	if err := ParseEnv(args, env, nil, &got); err != nil {
		t.Fatal(err)
	}
	want := example{
		Listen: "file", Endpoints: []string{"c", "d"}, Poison: true, Ratio: 0.75, Workers: 200,
		Queue: queue{AckWait: 30 * time.Second, MaxJobs: 3}, Logging: logging{Level: 2},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("configuration (-want +got):\n%s", d)
	}
}

func TestTheFileMayBeNamedByTheEnvironmentAndFlagsMayHaveUnderscores(t *testing.T) {
	got := defaults()
	env := []string{"SWITCHYARD_CONFIG=" + write(t, "queue: {max_jobs: 9}")}
	if err := ParseEnv([]string{"--queue_ack_wait", "2s"}, env, nil, &got); err != nil {
		t.Fatal(err)
	}
	if want := (queue{AckWait: 2 * time.Second, MaxJobs: 9}); got.Queue != want {
		t.Errorf("queue = %+v, want %+v", got.Queue, want)
	}
}

func TestAnEmptyFileChangesNothing(t *testing.T) {
	got := defaults()
	if err := Load(write(t, "# nothing\n"), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(defaults(), got); d != "" {
		t.Errorf("configuration (-want +got):\n%s", d)
	}
}

func TestFaultsSayWhereAndWhat(t *testing.T) {
	for _, c := range []struct {
		name, file string
		args, env  []string
		want       []string
	}{
		{name: "unknown key", file: "listen: x\nqueue:\n  ack_wiat: 1s\n", want: []string{"x.yaml:3", `unknown key "queue.ack_wiat"`}},
		{name: "two faults", file: "a: 1\nb: 2\n", want: []string{"x.yaml:1", `"a"`, "x.yaml:2", `"b"`}},
		{name: "wrong type", file: "workers: many\n", want: []string{"x.yaml:1", "many", "workers", "8 bits"}},
		{name: "duration without a unit", file: "queue: {ack_wait: 10}\n", want: []string{"x.yaml:1", `queue.ack_wait is "10"`, "a duration such as 1m30s"}},
		{name: "doubled key", file: "listen: a\nlisten: b\n", want: []string{"x.yaml:2", "listen", "twice", "line 1"}},
		{name: "two documents", file: "listen: a\n---\nlisten: b\n", want: []string{"x.yaml", "one YAML document"}},
		{name: "no YAML", file: "listen: [\n", want: []string{"x.yaml"}},
		{name: "bad text", file: "level: middle\n", want: []string{"x.yaml:1", `level is "middle"`, "low or high"}},
		{name: "a fraction for a number", file: "queue: {max_jobs: 8.5}\n", want: []string{"x.yaml:1", `queue.max_jobs is "8.5"`, "a whole number"}},
		{name: "a list for a word", file: "level: [low]\n", want: []string{"x.yaml:1", "level is a list", "want one word"}},
		{name: "a section for a list", file: "endpoints:\n  a: b\n", want: []string{"x.yaml:2", "endpoints is a section", "want a list of texts"}},
		{name: "a value for a section", file: "queue: 7\n", want: []string{"x.yaml:1", `queue is "7"`, "want keys"}},
		{name: "a list for all", file: "[listen]\n", want: []string{"x.yaml:1", "a list", "want keys"}},
		{name: "an alias", file: "listen: &x [a]\nratio: *x\n", want: []string{"listen is a list, want a text", "ratio is a list, want a number"}},
		{name: "flag value", args: []string{"--queue-ack-wait=soon"}, want: []string{"--queue-ack-wait", "soon", "duration"}},
		{name: "flag overflow", args: []string{"--workers=256"}, want: []string{"--workers", "256", "8 bits"}},
		{name: "flag bool", args: []string{"--poison=maybe"}, want: []string{"--poison", "maybe", "true or false"}},
		{name: "unknown flag", args: []string{"--nonsense"}, want: []string{"nonsense"}},
		{name: "argument", args: []string{"--poison", "on"}, want: []string{`"on"`}},
		{name: "environment", env: []string{"SWITCHYARD_RATIO=half"}, want: []string{"SWITCHYARD_RATIO", "half", "number"}},
		{name: "missing file", args: []string{"--config", "/nonexistent/x.yaml"}, want: []string{"/nonexistent/x.yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := c.args
			if c.file != "" {
				args = append(args, "--config", write(t, c.file))
			}
			got := defaults()
			err := ParseEnv(args, c.env, nil, &got)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not tell %q", err, w)
				}
			}
		})
	}
}

func TestHelpNamesEveryFieldWithItsDefault(t *testing.T) {
	var out bytes.Buffer
	got := defaults()
	if err := ParseEnv([]string{"--help"}, nil, &out, &got); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("error %v, want flag.ErrHelp", err)
	}
	for _, w := range []string{"--config", "--listen (default :1)", "--queue-ack-wait (default 1s)", "--level", "fill reserved blocks"} {
		if !strings.Contains(out.String(), w) {
			t.Errorf("help lacks %q:\n%s", w, &out)
		}
	}
}

func TestAStructThatCannotBeFilledIsAnError(t *testing.T) {
	for name, cfg := range map[string]any{
		"no pointer": example{},
		"map":        &struct{ M map[string]string }{},
		"shared": &struct {
			A_B, C int `yaml:"x"`
		}{},
		"config": &struct{ Config string }{},
	} {
		if _, err := Fields(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("listen: x\nqueue: {ack_wait: 1s}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("level: 3\nendpoints: {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := defaults()
		if err := decode("x.yaml", data, &got); err != nil && !strings.Contains(err.Error(), "x.yaml") {
			t.Errorf("error without the file: %v", err)
		}
	})
}
