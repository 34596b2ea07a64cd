package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"testing"
)

func TestTheModelIsThePinnedOne(t *testing.T) {
	f, err := os.Open(TestModel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		t.Fatal(err)
	}
	const want = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("sha256 %s, want %s", got, want)
	}
}
