package run

import "testing"

func TestGarbageMayGatherUpToAFixedSizeOrWhatLives(t *testing.T) {
	for live, want := range map[uint64]int{0: 1600, 4 << 20: 1600, 16 << 20: 400, 64 << 20: 100, 1 << 40: 100} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes live: %d %%, want %d", live, got, want)
		}
	}
}
