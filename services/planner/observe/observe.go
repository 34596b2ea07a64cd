// Package observe keeps the latest report of every process. It does no I/O; time is
// passed in. A Board may be used by several goroutines.
package observe

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
)

// keep is how long a process that no longer reports is remembered.
const keep = time.Minute

type key struct {
	role instancev1.Role
	id   string
}

type entry struct {
	report  *plannerv1.ReportRequest
	arrived time.Time
}

// Board holds one report per process: the latest one of its latest life.
type Board struct {
	mu      sync.Mutex
	entries map[key]entry
}

// NewBoard makes an empty board.
func NewBoard() *Board { return &Board{entries: make(map[key]entry)} }

// Add takes a report that arrived now. One that is older than what is known changes
// nothing; reports of an earlier life always are.
func (b *Board) Add(r *plannerv1.ReportRequest, now time.Time) {
	k := key{r.GetInstance().GetRole(), r.GetInstance().GetId()}
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, known := b.entries[k]; known && newer(old.report, r) {
		return
	}
	b.entries[k] = entry{r, now}
	b.forget(now)
}

// newer says that a is of a later life than b, or of the same and made after it.
func newer(a, b *plannerv1.ReportRequest) bool {
	if c := cmp.Compare(a.GetInstance().GetIncarnation(), b.GetInstance().GetIncarnation()); c != 0 {
		return c > 0
	}
	return a.GetTime().AsTime().After(b.GetTime().AsTime())
}

// Members lists the reports by role and id, with their age at now.
func (b *Board) Members(now time.Time) []*plannerv1.Member {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(now)
	members := make([]*plannerv1.Member, 0, len(b.entries))
	for _, e := range b.entries {
		members = append(members, &plannerv1.Member{Latest: e.report, Age: durationpb.New(now.Sub(e.arrived))})
	}
	slices.SortFunc(members, func(x, y *plannerv1.Member) int {
		a, b := x.GetLatest().GetInstance(), y.GetLatest().GetInstance()
		return cmp.Or(cmp.Compare(a.GetRole(), b.GetRole()), cmp.Compare(a.GetId(), b.GetId()))
	})
	return members
}

// forget drops what nobody reports any more. b.mu is held.
func (b *Board) forget(now time.Time) {
	for k, e := range b.entries {
		if now.Sub(e.arrived) > keep {
			delete(b.entries, k)
		}
	}
}
