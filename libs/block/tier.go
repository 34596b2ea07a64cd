package block

// Tier is where a worker keeps a block. Closer tiers have smaller numbers.
type Tier uint8

const (
	// Device blocks are in the memory that the engine computes in: those of a Pool.
	Device Tier = iota
	// Host blocks are in the worker's main memory.
	Host
	// Disk blocks are in storage.
	Disk

	// Tiers is the number of tiers.
	Tiers = iota
)

var tierNames = [Tiers]string{"device", "host", "disk"}

func (t Tier) String() string {
	if int(t) < len(tierNames) {
		return tierNames[t]
	}
	return "unknown"
}
