package tcp

import (
	"net"
	"net/netip"
	"slices"
	"time"
)

// Bounds of what anybody who reaches the port can bring about.
const (
	// maxCallers and maxCallersFrom bound the connections that have not said who they are, in all
	// and from one place.
	maxCallers     = 256
	maxCallersFrom = 128
	// maxStrangers and maxStrangersFrom bound the links of peers that have added us and that
	// nobody here has met: we have not added them, and allowed them nothing.
	maxStrangers     = 256
	maxStrangersFrom = 64
	// crowdPause is how long a crowd is not told of again.
	crowdPause = 10 * time.Second
)

// crowd bounds members that cost their maker nothing. Who comes is let in; if that is one too many,
// the oldest from its place gives way, or from the place that has most, so that a flood
// pushes out its own. To refuse who comes would keep out all others instead.
type crowd[M comparable] struct {
	total, each int
	members     []member[M] // the oldest first
	counts      map[netip.Prefix]int
	told        time.Time
}

type member[M comparable] struct {
	it   M
	from netip.Prefix
}

// add returns who gives way, if anyone.
func (c *crowd[M]) add(it M, from netip.Prefix) (out M, full bool) {
	if c.counts == nil {
		c.counts = make(map[netip.Prefix]int)
	}
	c.members = append(c.members, member[M]{it, from})
	c.counts[from]++
	switch {
	case c.counts[from] > c.each:
	case len(c.members) > c.total:
		from = c.busiest()
	default:
		return out, false
	}
	out = c.members[slices.IndexFunc(c.members, func(m member[M]) bool { return m.from == from })].it
	c.remove(out)
	return out, true
}

// busiest is the place with most members; of equals, that of the oldest.
func (c *crowd[M]) busiest() netip.Prefix {
	place := c.members[0].from
	for _, m := range c.members {
		if c.counts[m.from] > c.counts[place] {
			place = m.from
		}
	}
	return place
}

// remove tells whether it was a member.
func (c *crowd[M]) remove(it M) bool {
	i := slices.IndexFunc(c.members, func(m member[M]) bool { return m.it == it })
	if i < 0 {
		return false
	}
	from := c.members[i].from
	if c.counts[from]--; c.counts[from] == 0 {
		delete(c.counts, from)
	}
	c.members = slices.Delete(c.members, i, i+1)
	return true
}

// tell reports now and then that someone has given way.
func (c *crowd[M]) tell(now time.Time) bool {
	if now.Sub(c.told) < crowdPause {
		return false
	}
	c.told = now
	return true
}

// placeOf is where a connection comes from: an address, or the /64 of IPv6 that one host may
// have to itself.
func placeOf(socket net.Conn) netip.Prefix {
	a, ok := socket.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{} // one place for all whose place is not known
	}
	ip := a.AddrPort().Addr().Unmap().WithZone("")
	place, _ := ip.Prefix(min(ip.BitLen(), 64))
	return place
}
