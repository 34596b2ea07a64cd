package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/switchyard-llm/switchyard/libs/worker"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
)

// Where prefill workers are called there are no jobs, and in the pull style no commits.
func TestStatusShowsTheCallsThatWereServed(t *testing.T) {
	for style, shown := range map[worker.Style]bool{worker.Pull: true, worker.Rendezvous: true, worker.Push: false} {
		s := status{
			decodes: []*decodeworkerv1.DescribeResponse{{
				Instance: &instancev1.Instance{Id: "decode-0"},
				HandOff:  &decodeworkerv1.HandOffReport{PrefillCalls: map[string]uint64{"done": 7, "no_credit": 2}},
			}},
			prefills: []*prefillworkerv1.DescribeResponse{{
				Instance: &instancev1.Instance{Id: "prefill-0", Model: &instancev1.ModelCard{HandOffStyle: style.Wire()}},
				Jobs: &prefillworkerv1.JobReport{
					Calls: 11, CallsRefused: 2, CallsRepeated: 3, HoldsReleased: 14, HoldsExpired: 5, HoldsDropped: 6, HeldBlocks: 17, HeldBlocksHighWater: 18,
				},
			}},
		}
		var out bytes.Buffer
		if err := s.print(&out); err != nil {
			t.Fatal(err)
		}
		var rows [][]string
		for line := range strings.Lines(out.String()) {
			rows = append(rows, strings.Fields(line))
		}
		want := []string{"prefill-0", string(style), "11", "2", "3", "14", "5", "6", "17", "18"}
		if got := slices.ContainsFunc(rows, func(r []string) bool { return slices.Equal(r, want) }); got != shown {
			t.Errorf("style %s: a row %v is there: %v, want %v\n%s", style, want, got, shown, &out)
		}
		for _, line := range []string{"decode-0 made 7 calls that ended by done\n", "decode-0 made 2 calls that ended by no_credit\n"} {
			if !strings.Contains(out.String(), line) {
				t.Errorf("lacks %q:\n%s", line, &out)
			}
		}
	}
}

// A hundred workers have thousands of links.
func TestStatusSumsManyLinksUp(t *testing.T) {
	d := &decodeworkerv1.DescribeResponse{Instance: &instancev1.Instance{Id: "decode-0"}}
	for i := range linksShown + 1 {
		d.Links = append(d.Links, &decodeworkerv1.Link{PrefillWorker: "prefill", BytesPerSecond: 1e9 + float64(i)*1e6})
	}
	for all, want := range map[bool]string{false: "17 links from prefill to decode workers, of 1000 to 1016 MB/s; --links shows each\n", true: "LINK:"} {
		var out bytes.Buffer
		if err := (&status{decodes: []*decodeworkerv1.DescribeResponse{d}, allLinks: all}).print(&out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &out)
		}
	}
}

func TestStatusShowsTheLinks(t *testing.T) {
	s := status{decodes: []*decodeworkerv1.DescribeResponse{
		{Instance: &instancev1.Instance{Id: "decode-0"}, Links: []*decodeworkerv1.Link{
			{PrefillWorker: "prefill-0", Class: "same host", BytesPerSecond: 3.14159e9, Latency: durationpb.New(98765 * time.Nanosecond), MeasuredBy: decodeworkerv1.LinkSource_LINK_SOURCE_PROBE},
			{PrefillWorker: "prefill-1", Class: "network", BytesPerSecond: 2.9e9, Latency: durationpb.New(time.Millisecond), MeasuredBy: decodeworkerv1.LinkSource_LINK_SOURCE_START},
		}},
		{Instance: &instancev1.Instance{Id: "decode-1"}, Links: []*decodeworkerv1.Link{
			{PrefillWorker: "prefill-1", Class: "unknown", BytesPerSecond: 1e6, MeasuredBy: decodeworkerv1.LinkSource_LINK_SOURCE_TRANSFERS},
		}},
	}}
	var out, lines bytes.Buffer
	if err := errors.Join(s.print(&out), s.printJSON(&lines)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"LINK: FROM TO CLASS MB/S LATENCY KNOWN BY", "prefill-0 decode-0 same host 3142 99µs probe", "prefill-1 decode-0 network 2900 1ms class",
		"prefill-1 decode-1 unknown 1 0s transfers",
	} {
		if !slices.ContainsFunc(strings.Split(out.String(), "\n"), func(line string) bool { return strings.Join(strings.Fields(line), " ") == want }) {
			t.Errorf("lacks %q:\n%s", want, &out)
		}
	}
	if strings.Count(out.String(), "LINK:") != 1 {
		t.Errorf("more than one table:\n%s", &out)
	}
	if json := strings.ReplaceAll(lines.String(), " ", ""); !strings.Contains(json, `"measuredBy":"LINK_SOURCE_PROBE"`) || !strings.Contains(json, `"class":"samehost"`) {
		t.Errorf("lacks the links: %s", &lines)
	}
}
