package discovery

import (
	"slices"
	"strings"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// Snapshot is the members of a role at one time. It is shared: nobody changes it.
type Snapshot struct {
	// Members, by id.
	Members []Member
	// Revision is etcd's, of the last change seen.
	Revision int64
	// Stale says that etcd does not answer at present: the members are those known last.
	Stale bool
}

// Member is one instance, as far as is known.
type Member struct {
	// Instance is what it registered last. Shared: nobody changes it.
	Instance *instancev1.Instance
	// Suspect says that it left etcd without having said that it drains. It stays while it
	// answers when its health is asked for.
	Suspect bool
	// Confirmed says of a suspect that it answered, the last time it was asked.
	Confirmed bool
}

// Serving lists the members that may be given work: those of the model ("" is any) that
// do not drain, suspects included, by id.
func (s Snapshot) Serving(model string) []*instancev1.Instance {
	return s.pick(model, func(Member) bool { return true })
}

// Live is Serving without the suspects that have not answered.
func (s Snapshot) Live(model string) []*instancev1.Instance {
	return s.pick(model, func(m Member) bool { return !m.Suspect || m.Confirmed })
}

func (s Snapshot) pick(model string, also func(Member) bool) []*instancev1.Instance {
	var picked []*instancev1.Instance
	for _, m := range s.Members {
		in := m.Instance
		if !in.GetDraining() && (model == "" || in.GetModel().GetName() == model) && also(m) {
			picked = append(picked, in)
		}
	}
	return picked
}

// Find is the member with this id.
func (s Snapshot) Find(id string) (Member, bool) {
	i, found := slices.BinarySearchFunc(s.Members, id, func(m Member, id string) int {
		return strings.Compare(m.Instance.GetId(), id)
	})
	if !found {
		return Member{}, false
	}
	return s.Members[i], true
}
