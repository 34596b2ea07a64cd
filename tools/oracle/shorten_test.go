package main

import (
	"errors"
	"slices"
	"testing"
)

func TestShortenLeavesWhatMatters(t *testing.T) {
	calls := 0
	got, err := shorten([]rune("aaaaaxaaaaaaaaaaaayaaaaaaaaz"), func(list []rune) (bool, error) {
		calls++
		x, y := slices.Index(list, 'x'), slices.Index(list, 'y')
		return x >= 0 && x < y, nil
	})
	if err != nil || string(got) != "xy" || calls > 60 {
		t.Errorf("%q after %d calls, %v", string(got), calls, err)
	}
}

func TestShortenGivesNothingOfWhatDoesNotDiffer(t *testing.T) {
	if got, err := shorten([]int{1, 2}, func([]int) (bool, error) { return false, nil }); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := shorten([]int{1, 2}, func([]int) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}
