package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// statusCmd shows the cluster once.
type statusCmd struct {
	cluster
	Links bool `help:"Show each link between workers, however many there are."`
	JSON  bool `help:"Print one JSON object a line: each process's own report." name:"json"`
}

// describeTimeout bounds each worker's answer; one that is silent is shown as such.
const describeTimeout = 2 * time.Second

// status is what was learned.
type status struct {
	members  []*plannerv1.Member
	routers  []routed
	decodes  []*decodeworkerv1.DescribeResponse
	prefills []*prefillworkerv1.DescribeResponse
	silent   []string

	allLinks bool // to be shown
}

// routed is what one processor knows.
type routed struct {
	processor string
	model     string
	routing   *processorv1.RoutingResponse
}

// Run implements the command.
func (c *statusCmd) Run(ctx context.Context, out io.Writer) (err error) {
	client, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.close()) }()
	s, err := client.status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return s.printJSON(out)
	}
	s.allLinks = c.Links
	return s.print(out)
}

func (c *client) status(ctx context.Context) (*status, error) {
	s := &status{}
	for _, role := range []instancev1.Role{instancev1.Role_ROLE_PLANNER, instancev1.Role_ROLE_PROCESSOR, instancev1.Role_ROLE_DECODE_WORKER, instancev1.Role_ROLE_PREFILL_WORKER} {
		members, err := c.members(ctx, role)
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			if err := c.ask(ctx, s, m.Instance); err != nil {
				s.silent = append(s.silent, fmt.Sprintf("%s at %s: %v", m.Instance.GetId(), m.Instance.GetAddress(), err))
			}
		}
	}
	return s, nil
}

// ask adds one process's report.
func (c *client) ask(ctx context.Context, s *status, i *instancev1.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	conn, err := c.conns.To(i.GetAddress())
	if err != nil {
		return err
	}
	switch i.GetRole() {
	case instancev1.Role_ROLE_PLANNER:
		r, err := plannerv1.NewPlannerClient(conn).Status(ctx, &plannerv1.StatusRequest{})
		s.members = append(s.members, r.GetMembers()...)
		return err
	case instancev1.Role_ROLE_PROCESSOR:
		r, err := processorv1.NewProcessorClient(conn).Routing(ctx, &processorv1.RoutingRequest{})
		if err == nil {
			s.routers = append(s.routers, routed{i.GetId(), i.GetModel().GetName(), r})
		}
		return err
	case instancev1.Role_ROLE_DECODE_WORKER:
		r, err := decodeworkerv1.NewDecodeWorkerClient(conn).Describe(ctx, &decodeworkerv1.DescribeRequest{})
		if err == nil {
			s.decodes = append(s.decodes, r)
		}
		return err
	default:
		r, err := prefillworkerv1.NewPrefillWorkerClient(conn).Describe(ctx, &prefillworkerv1.DescribeRequest{})
		if err == nil {
			s.prefills = append(s.prefills, r)
		}
		return err
	}
}

func (s *status) printJSON(out io.Writer) error {
	lines := make([]string, 0, len(s.members)+len(s.decodes)+len(s.prefills))
	for _, m := range s.members {
		if m.GetLatest().GetTraffic() != nil {
			lines = append(lines, compact(m.GetLatest()))
		}
	}
	for _, r := range s.routers {
		lines = append(lines, fmt.Sprintf(`{"processor": %s, "model": %s, "routing": %s}`, quoted(r.processor), quoted(r.model), compact(r.routing)))
	}
	for _, d := range s.decodes {
		lines = append(lines, compact(d))
	}
	for _, p := range s.prefills {
		lines = append(lines, compact(p))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func (s *status) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	s.printTraffic(w)
	s.printRouting(w)
	s.printDecodes(w)
	s.printLinks(w)
	s.printPrefills(w)
	for _, line := range s.silent {
		fmt.Fprintln(w, "no answer from", line)
	}
	if len(s.decodes)+len(s.prefills)+len(s.silent) == 0 {
		fmt.Fprintln(w, "no worker is there")
	}
	return w.Flush()
}

func (s *status) printTraffic(w io.Writer) {
	for _, m := range s.members {
		t := m.GetLatest().GetTraffic()
		if t == nil {
			continue
		}
		fmt.Fprintln(w, "FRONTEND\tACTIVE\tREQ/S\tFAILED\tISL\tOSL\tTTFT\tITL")
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%d\t%.0f\t%.0f\t%v\t%v\n\n", m.GetLatest().GetInstance().GetId(), t.GetActiveRequests(),
			float64(t.GetRequests())/max(t.GetInterval().AsDuration().Seconds(), 1e-3), t.GetFailedRequests(),
			t.GetMeanInputTokens(), t.GetMeanOutputTokens(),
			t.GetMeanTimeToFirstToken().AsDuration().Round(time.Millisecond), t.GetMeanInterTokenLatency().AsDuration().Round(100*time.Microsecond))
	}
}

func (s *status) printDecodes(w io.Writer) {
	if len(s.decodes) == 0 {
		return
	}
	fmt.Fprintln(w, "DECODE\tMODEL\tRUN\tWAIT\tTOKENS OUT\tPROMPT HERE\tPREFILLED: LOCAL\tREMOTE\tFALLBACK\tBLOCKS: USED\tCACHED\tFREE\tQUARANTINE")
	for _, d := range s.decodes {
		l, h, b := d.GetLoad(), d.GetHandOff(), states(d.GetPool())
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", d.GetInstance().GetId(), d.GetInstance().GetModel().GetName(),
			l.GetRunningSequences(), l.GetWaitingSequences(), l.GetGeneratedTokens(), l.GetComputedPromptTokens(),
			h.GetLocal(), h.GetRemote(), h.GetFallback(), b.used, b.cached, b.free, b.quarantine)
	}
	fmt.Fprintln(w)
	for _, d := range s.decodes {
		by := d.GetHandOff().GetRemoteByPrefillWorker()
		for _, id := range slices.Sorted(maps.Keys(by)) {
			fmt.Fprintf(w, "%s prompts computed by %[3]s: %[2]d\n", d.GetInstance().GetId(), by[id], id)
		}
		calls := d.GetHandOff().GetPrefillCalls()
		for _, outcome := range slices.Sorted(maps.Keys(calls)) {
			fmt.Fprintf(w, "%s made %d calls that ended by %s\n", d.GetInstance().GetId(), calls[outcome], outcome)
		}
		reasons := d.GetHandOff().GetReasons()
		for _, reason := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Compare(reasons[b], reasons[a]) }) {
			fmt.Fprintf(w, "%s placed %d by %s\n", d.GetInstance().GetId(), reasons[reason], reason)
		}
	}
	fmt.Fprintln(w)
}

// printRouting shows what each processor sent where, and how much of it was there.
func (s *status) printRouting(w io.Writer) {
	for _, r := range s.routers {
		fmt.Fprintln(w, "ROUTED BY\tMODEL\tTO\tENDED\tTOKENS: PROMPT\tHELD\tREUSED\tHIT RATE\tQUEUED\tACTIVE\tBLOCKS KNOWN")
		for _, t := range r.routing.GetWorkers() {
			note := ""
			if !t.GetAttached() {
				note = "\tnot attached"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%.1f %%\t%d\t%d\t%d%s\n", r.processor, r.model, t.GetWorker(), t.GetSequences(), t.GetPromptTokens(), t.GetExpectedTokens(),
				t.GetCachedTokens(), 100*float64(t.GetCachedTokens())/float64(max(1, t.GetPromptTokens())), t.GetPrefillTokens(), t.GetDecodeTokens(), t.GetHeldBlocks(), note)
		}
		fmt.Fprintf(w, "%s booked %d, heard of %d of others, corrected %d; index: %d entries, %d bytes, %d given up; events: %d gaps, %d snapshots\n\n", r.processor,
			r.routing.GetDecisions(), r.routing.GetSharedBookings(), r.routing.GetCorrections(), r.routing.GetIndexEntries(), r.routing.GetIndexBytes(),
			r.routing.GetIndexEvictions(), r.routing.GetEventGaps(), r.routing.GetSnapshots())
	}
}

// linkSources are where the links are known from, in words.
var linkSources = map[decodeworkerv1.LinkSource]string{
	decodeworkerv1.LinkSource_LINK_SOURCE_START:     "class",
	decodeworkerv1.LinkSource_LINK_SOURCE_PROBE:     "probe",
	decodeworkerv1.LinkSource_LINK_SOURCE_TRANSFERS: "transfers",
}

// linksShown is how many links are shown one by one without being asked for.
const linksShown = 16

// printLinks shows the ways by which blocks get from prefill to decode workers; of many, how unlike they are.
func (s *status) printLinks(w io.Writer) {
	n, slowest, quickest := 0, math.Inf(1), 0.
	for _, d := range s.decodes {
		for _, l := range d.GetLinks() {
			n++
			slowest, quickest = min(slowest, l.GetBytesPerSecond()), max(quickest, l.GetBytesPerSecond())
		}
	}
	if n > linksShown && !s.allLinks {
		fmt.Fprintf(w, "%d links from prefill to decode workers, of %.0f to %.0f MB/s; --links shows each\n\n", n, slowest/1e6, quickest/1e6)
		return
	}
	const head = "LINK: FROM\tTO\tCLASS\tMB/S\tLATENCY\tKNOWN BY\n"
	rows := 0
	for _, d := range s.decodes {
		for _, l := range d.GetLinks() {
			if rows++; rows == 1 {
				fmt.Fprint(w, head)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%v\t%s\n", l.GetPrefillWorker(), d.GetInstance().GetId(), l.GetClass(), l.GetBytesPerSecond()/1e6,
				l.GetLatency().AsDuration().Round(time.Microsecond), cmp.Or(linkSources[l.GetMeasuredBy()], "unknown"))
		}
	}
	if rows > 0 {
		fmt.Fprintln(w)
	}
}

func (s *status) printPrefills(w io.Writer) {
	if len(s.prefills) == 0 {
		return
	}
	fmt.Fprintln(w, "PREFILL\tMODEL\tJOBS\tCOMMITTED\tABORTED\tEXPIRED\tFAILED\tCOMPUTED\tOWN HITS\tREAD\tWRITTEN\tBYTES WRITTEN")
	for _, p := range s.prefills {
		j := p.GetJobs()
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", p.GetInstance().GetId(), p.GetInstance().GetModel().GetName(), j.GetDeliveries(), j.GetCommitted(),
			j.GetAborted(), j.GetExpired(), j.GetFailed(), j.GetComputedTokens(), j.GetOwnHitTokens(), j.GetReadTokens(), j.GetWrittenTokens(),
			p.GetTransport().GetWrittenBytes())
	}
	s.printCalls(w)
}

// printCalls shows the prefill workers that decode workers call. What those computed is
// in the table of all.
func (s *status) printCalls(w io.Writer) {
	called := slices.DeleteFunc(slices.Clone(s.prefills), func(p *prefillworkerv1.DescribeResponse) bool {
		return worker.StyleOf(p.GetInstance().GetModel()) == worker.Push
	})
	if len(called) == 0 {
		return
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "CALLED\tSTYLE\tCALLS\tREFUSED\tREPEATED\tHOLDS: RELEASED\tEXPIRED\tDROPPED\tBLOCKS HELD\tMOST")
	for _, p := range called {
		j := p.GetJobs()
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", p.GetInstance().GetId(), worker.StyleOf(p.GetInstance().GetModel()),
			j.GetCalls(), j.GetCallsRefused(), j.GetCallsRepeated(), j.GetHoldsReleased(), j.GetHoldsExpired(), j.GetHoldsDropped(),
			j.GetHeldBlocks(), j.GetHeldBlocksHighWater())
	}
}

// usage sums a pool's states as a person thinks of them.
type usage struct{ used, cached, free, quarantine uint32 }

func states(p *instancev1.PoolReport) (u usage) {
	for _, c := range p.GetStates() {
		switch c.GetState() {
		case instancev1.BlockState_BLOCK_STATE_FREE:
			u.free += c.GetBlocks()
		case instancev1.BlockState_BLOCK_STATE_SEALED, instancev1.BlockState_BLOCK_STATE_HELD:
			u.cached += c.GetBlocks()
		case instancev1.BlockState_BLOCK_STATE_QUARANTINE:
			u.quarantine += c.GetBlocks()
		default:
			u.used += c.GetBlocks()
		}
	}
	return u
}

// quoted is a text in JSON.
func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil { // for no string
		return `""`
	}
	return string(out)
}

// compact is a message as one line of JSON.
func compact(m proto.Message) string {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil { // only for invalid UTF-8, which cannot have come over the wire
		return fmt.Sprintf("{%q: %q}", "error", err)
	}
	return string(text)
}
