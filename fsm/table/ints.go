package table

// Ints is an int32 for every slot number, zero until it is set: a column beside the records of a Pages, such as the
// position of each slot in a heap. The zero value is ready to use.
type Ints struct {
	pages []*[pageSize]int32
	set   []int32 // numbers of each page that are not zero
	held  int
}

// Get is the number at i ≥ 0.
func (x *Ints) Get(i int32) int32 {
	k := int(i >> pageShift)
	if k >= len(x.pages) || x.pages[k] == nil {
		return 0
	}
	return x.pages[k][i&pageMask]
}

// Set puts v at i ≥ 0. A page whose numbers are all zero again is given back.
func (x *Ints) Set(i, v int32) {
	k := int(i >> pageShift)
	if k >= len(x.pages) || x.pages[k] == nil {
		if v == 0 {
			return
		}
		for k >= len(x.pages) {
			x.pages = append(x.pages, nil)
			x.set = append(x.set, 0)
		}
		x.pages[k] = new([pageSize]int32)
		x.held++
	}
	n := &x.pages[k][i&pageMask]
	switch old := *n; {
	case old == 0 && v != 0:
		x.set[k]++
	case old != 0 && v == 0:
		if x.set[k]--; x.set[k] == 0 && k > 0 { // the first page stays: a lone element comes and goes there
			x.pages[k] = nil
			x.held--
			return
		}
	}
	*n = v
}

// Bytes is the memory held.
func (x *Ints) Bytes() int64 { return int64(x.held)*pageSize*4 + int64(len(x.pages))*12 }
