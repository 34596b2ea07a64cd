package run

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// spareBytes is how much garbage may always gather before it is collected. A service that
// streams tokens has little that lives and makes much garbage; by Go's own rule, which lets
// as much gather as lives, a quarter of its time would go into collecting.
const spareBytes = 64 << 20

// defaultPercent is Go's own rule, which holds for larger heaps.
const defaultPercent = 100

// CollectLess lets garbage gather up to 64 MiB, or up to as much as lives, for as long as the
// process runs. GOGC in the environment overrides it, GOMEMLIMIT bounds it as ever.
func CollectLess() {
	if os.Getenv("GOGC") != "" {
		return
	}
	watchCollections(adjust(0))
}

// sentinel dies with every collection.
type sentinel struct{ self *sentinel }

func watchCollections(set int) {
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) { watchCollections(adjust(set)) })
}

// adjust sets and returns the share of what lives that may gather, unless it is about what
// was set before: to set it stops all goroutines for a moment.
func adjust(set int) int {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	want := percent(live[0].Value.Uint64())
	if set > 0 && want > set*3/4 && want < set*4/3 {
		return set
	}
	debug.SetGCPercent(want)
	return want
}

func percent(liveBytes uint64) int {
	// Below 4 MiB Go has a floor of its own.
	return max(defaultPercent, int(100*spareBytes/max(liveBytes, 4<<20)))
}
