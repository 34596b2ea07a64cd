package processor

import (
	"context"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	"github.com/switchyard-llm/switchyard/services/processor/router"
)

// followPrefills tells the router which prefill workers live, until ctx ends. The processor
// does not call them: it only knows which prefixes each holds.
func (p *Processor) followPrefills(ctx context.Context) error {
	followed := map[router.WorkerID]*instancev1.Instance{}
	for snapshot := range p.deps.PrefillWorkers.Watch(ctx) {
		present := map[router.WorkerID]bool{}
		for _, m := range snapshot.Members {
			card, in := m.Instance.GetModel(), m.Instance
			if card.GetName() != p.deps.Model.Name || in.GetDraining() {
				continue
			}
			id := router.WorkerID{Name: in.GetId(), Incarnation: in.GetIncarnation()}
			present[id] = true
			err := p.router.AddPrefill(router.Worker{
				ID: id, Model: card.GetName(), BlockTokens: int(card.GetBlockTokens()), PoolBlocks: int(card.GetPoolBlocks()),
				Events: card.GetKvEvents() && p.prefillEvents != nil,
			})
			switch {
			case err != nil:
				p.log.Error("a prefill worker cannot be hinted at", "error", err)
			case followed[id] == nil:
				followed[id] = in
				p.prefillEvents.join(in)
			}
		}
		p.router.KeepPrefills(present)
		for id, in := range followed {
			if !present[id] {
				delete(followed, id)
				p.prefillEvents.leave(in)
			}
		}
	}
	return nil
}
