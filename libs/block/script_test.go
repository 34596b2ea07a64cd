package block_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/block"
	"github.com/switchyard-llm/switchyard/libs/sequence"
)

var rewrite = flag.Bool("rewrite", false, "write the answers given into the scripts, to be read with care")

// The files in testdata are scripts: a line "> command" is followed by what it
// answers and by the states that have blocks. Blocks hold four tokens, a token is a
// letter, times are milliseconds. A script starts with "> pool BLOCKS HELDCAP
// QUARANTINECAP".
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// play runs a script and returns it with the answers that were given.
func play(t *testing.T, text string) string {
	var (
		out strings.Builder
		s   *stage
	)
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if strings.HasPrefix(line, "#") || line == "\n" {
				out.WriteString(line)
			}
			continue
		}
		args := strings.Fields(command)
		if args[0] == "pool" {
			s = newStage(t, args[1:])
		}
		fmt.Fprintf(&out, "%s%s | %s\n", line, s.do(args), s.states())
		if err := s.pool.Check(s.all); err != nil {
			t.Fatalf("after %s: %v", command, err)
		}
	}
	return out.String()
}

type stage struct {
	t       *testing.T
	pool    *block.Pool
	tables  map[string]*block.Table
	all     []*block.Table
	tickets map[uint64]block.Ticket
}

func newStage(t *testing.T, args []string) *stage {
	c := block.Config{BlockTokens: 4, Chain: mix(64)}
	if _, err := fmt.Sscan(strings.Join(args, " "), &c.Blocks, &c.HeldCap, &c.QuarantineCap); err != nil {
		t.Fatal(err)
	}
	p, err := block.NewPool(c)
	if err != nil {
		t.Fatal(err)
	}
	return &stage{t: t, pool: p, tables: map[string]*block.Table{}, tickets: map[uint64]block.Ticket{}}
}

func (s *stage) number(text string) int {
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil {
		s.t.Fatalf("number %q: %v", text, err)
	}
	return n
}

func (s *stage) at(text string) time.Time { return time.UnixMilli(int64(s.number(text))) }

func letters(text string) []sequence.Token {
	var ts []sequence.Token
	for _, r := range text {
		ts = append(ts, sequence.Token(r))
	}
	return ts
}

// answer is the sentinel of an error, or the whole of another one.
func answer(err error) string {
	for name, e := range map[string]error{
		"ok": nil, "NOROOM": block.ErrNoRoom, "TOOLARGE": block.ErrTooLarge, "LATER": block.ErrLater, "GONE": block.ErrGone,
		"STALE": block.ErrStale, "FENCED": block.ErrFenced, "COMMITTED": block.ErrCommitted,
	} {
		if errors.Is(err, e) {
			return name
		}
	}
	return err.Error()
}

func (s *stage) states() string {
	c := s.pool.Counts()
	var parts []string
	for state, n := range c.Now {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%v %d", block.State(state), n))
		}
	}
	return fmt.Sprintf("%s, booked %d", strings.Join(parts, " "), c.Booked)
}

func (s *stage) do(args []string) string {
	name, args := args[0], args[1:]
	switch name {
	case "pool":
		return "ok"
	case "admit", "extend", "advance", "reserve", "rebook", "release":
		return s.table(name, args)
	case "claim": // transfer attempt writer now expiry
		return s.claim(args)
	case "commit": // transfer ticket [flaw]
		return s.commit(args)
	case "renew": // transfer attempt expiry
		return answer(s.pool.Renew(block.TransferID(args[0]), block.AttemptID(args[1]), s.at(args[2])))
	case "drop": // transfer attempt
		return answer(s.pool.ReleaseHold(block.TransferID(args[0]), block.AttemptID(args[1])))
	case "abort": // transfer attempt
		_, ok := s.pool.Abort(block.TransferID(args[0]), block.AttemptID(args[1]))
		return fmt.Sprint(ok)
	case "abort-ticket":
		_, ok := s.pool.AbortTicket(uint64(s.number(args[0])))
		return fmt.Sprint(ok)
	case "abort-writer":
		return tell(s.pool.AbortWriter(block.WriterID(args[0])))
	case "withdraw":
		return fmt.Sprintf("committed=%v", s.pool.Withdraw(block.TransferID(args[0])))
	case "expire":
		return tell(s.pool.Expire(s.at(args[0])))
	case "quarantined":
		return tell(s.pool.Quarantined())
	case "settle": // writer ticket
		_, blocks := s.pool.Settle(block.Proof{Writer: block.WriterID(args[0]), Ticket: uint64(s.number(args[1]))})
		return fmt.Sprint(blocks)
	}
	s.t.Fatalf("command %s is unknown", name)
	return ""
}

func (s *stage) table(name string, args []string) string {
	switch t := s.tables[args[0]]; name {
	case "admit": // table prompt blocks [namespace]
		namespace := strings.Join(args[3:], "")
		t, err := s.pool.Admit(block.Prompt{Tokens: letters(args[1]), Namespace: namespace}, s.number(args[2]))
		if err != nil {
			return answer(err)
		}
		s.tables[args[0]], s.all = t, append(s.all, t)
		return fmt.Sprintf("hit %d", t.CachedTokens())
	case "extend": // table tokens
		return answer(t.Extend(s.number(args[1])))
	case "advance": // table letters
		return answer(t.Advance(letters(args[1])))
	case "reserve": // table transfer
		_, err := t.Reserve(block.TransferID(args[1]))
		return answer(err)
	case "rebook":
		return answer(t.Rebook())
	default:
		t.Release()
		return "ok"
	}
}

func (s *stage) claim(args []string) string {
	tk, err := s.pool.Claim(block.TransferID(args[0]), block.Claim{
		Attempt: block.AttemptID(args[1]), Writer: block.WriterID(args[2]), Now: s.at(args[3]), Expiry: s.at(args[4]),
	})
	if err != nil {
		return answer(err)
	}
	s.tickets[tk.Number] = tk
	text := fmt.Sprintf("ticket %d grant %d tokens %d-%d blocks %v prefix %v", tk.Number, tk.Grants, tk.From, tk.To, tk.Blocks, tk.Prefix)
	if tk.Repeated {
		text += " again"
	}
	return text
}

func (s *stage) commit(args []string) string {
	tk := s.tickets[uint64(s.number(args[1]))]
	r := block.Receipt{Writer: tk.Writer, Ticket: tk.Number, Blocks: append([]block.Ref(nil), tk.Blocks...), Tokens: tk.To}
	switch strings.Join(args[2:], "") {
	case "generation":
		r.Blocks[0].Generation++
	case "writer":
		r.Writer = "stranger"
	case "tokens":
		r.Tokens--
	case "ticket":
		r.Ticket++
	}
	return answer(s.pool.Commit(block.TransferID(args[0]), r))
}

func tell(qs []block.Quarantined) string {
	parts := []string{fmt.Sprint(len(qs))}
	for _, q := range qs {
		part := fmt.Sprintf("%s:%d:%s/%s:%d", q.Writer, q.Ticket, q.Transfer, q.Attempt, len(q.Blocks))
		if q.OverCap {
			part += "!"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}
