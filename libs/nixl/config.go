package nixl

import (
	"errors"
	"fmt"
	"log/slog"
	"unicode/utf8"
)

// Config holds what every transport's agent needs to know.
type Config struct {
	// Name is the worker's name, unique among live workers.
	Name string
	// Incarnation tells this life of the worker from earlier ones.
	Incarnation string
	// KVFormat is a digest of all that makes keys and values mean the same; peers
	// whose digests differ are refused.
	KVFormat string
	// Copiers is the number of goroutines that copy, where the transport copies; 0 means 2.
	Copiers int
	// Transfers bounds the transfers that wait for a copier; 0 means 64. Post waits when it is full.
	Transfers int
	// Notes bounds the received notes that wait for Receive, and for each peer those that
	// wait to be sent; 0 means 1,024. Senders wait when it is full.
	Notes int
	// Logger gets connections made and lost; nil discards them.
	Logger *slog.Logger
}

// maxNameBytes bounds names, incarnations and KV formats, which come from other processes.
const maxNameBytes = 256

// Complete fills in the defaults, or reports the first field that cannot be.
func (c Config) Complete() (Config, error) {
	if err := checkNames(c.Name, c.Incarnation, c.KVFormat); err != nil {
		return c, err
	}
	for _, f := range []struct {
		name      string
		value     *int
		byDefault int
	}{{"copiers", &c.Copiers, 2}, {"transfers", &c.Transfers, 64}, {"notes", &c.Notes, 1024}} {
		if *f.value < 0 {
			return c, fmt.Errorf("nixl configuration: %s is %d, want 0 or more", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.byDefault
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// ID is the name and incarnation as one value.
func (c Config) ID() PeerID { return PeerID{c.Name, c.Incarnation} }

// Validate reports a name or incarnation that no agent can have.
func (p PeerID) Validate() error {
	return checkText(named{"name", p.Name}, named{"incarnation", p.Incarnation})
}

func checkNames(name, incarnation, format string) error {
	return checkText(named{"name", name}, named{"incarnation", incarnation}, named{"KV format", format})
}

type named struct{ name, value string }

func checkText(fields ...named) error {
	for _, f := range fields {
		switch {
		case f.value == "":
			return errors.New("nixl: " + f.name + " is empty")
		case len(f.value) > maxNameBytes:
			return fmt.Errorf("nixl: %s has %d bytes, want at most %d", f.name, len(f.value), maxNameBytes)
		case !utf8.ValidString(f.value):
			return fmt.Errorf("nixl: %s %q is not UTF-8", f.name, f.value)
		}
	}
	return nil
}
