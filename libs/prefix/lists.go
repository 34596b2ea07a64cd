package prefix

// lists keeps the holders of runs that have many: lists whose capacity is a power of two, allocated in pages.
type lists [listClasses]listClass

const (
	listClasses = 31
	listPage    = 256 // holders
)

type listClass struct {
	pages [][]holder
	free  []uint32
	live  int
}

// listCapacity of class 0 is what a run holds itself.
func listCapacity(class uint8) int {
	if class == 0 {
		return nearHolders
	}
	return 4 << class
}

func listsPerPage(class uint8) uint32 { return max(1, uint32(listPage/listCapacity(class))) }

func (l *lists) at(class uint8, id uint32) []holder {
	n, per := listCapacity(class), listsPerPage(class)
	from := int(id%per) * n
	return l[class].pages[id/per][from : from+n : from+n]
}

func (l *lists) take(class uint8) uint32 {
	c := &l[class]
	if len(c.free) == 0 {
		per := listsPerPage(class)
		first := uint32(len(c.pages)) * per
		c.pages = append(c.pages, make([]holder, per*uint32(listCapacity(class))))
		for i := range per {
			c.free = append(c.free, first+per-1-i)
		}
	}
	id := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.live++
	return id
}

func (l *lists) give(class uint8, id uint32) {
	c := &l[class]
	c.free = append(c.free, id)
	if c.live--; c.live == 0 {
		*c = listClass{}
	}
}

// bytes is the memory of the pages.
func (l *lists) bytes() int {
	n := 0
	for class := range l {
		c := &l[class]
		n += len(c.pages)*int(listsPerPage(uint8(class)))*listCapacity(uint8(class))*holderBytes + cap(c.free)*4
	}
	return n
}
