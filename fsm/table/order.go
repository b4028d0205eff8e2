package table

import "sort"

// orderPage is how many slots a page of an Order holds.
const orderPage = 512

// Order keeps slots sorted by Less in pages, so that a place among a million is found in log n steps and those behind it are
// read one after the other. Slots that come in order, or nearly, cost little: a page that is full at the end is left full.
// Set Less before the first Insert; what it compares must not change while a slot is here. Readers may share an Order.
type Order struct {
	Less func(a, b int32) bool

	pages [][]int32
	n     int
}

// Len is the number of slots.
func (o *Order) Len() int { return o.n }

// Bytes is the memory held.
func (o *Order) Bytes() int64 {
	b := int64(cap(o.pages)) * 24
	for _, p := range o.pages {
		b += int64(cap(p)) * 4
	}
	return b
}

// Place is a position in an Order, good until the next Insert or Remove. The zero value is the first.
type Place struct{ page, at int }

// Seek is the first place whose slot is not before, where before says true of a first part of the order and false of the rest.
func (o *Order) Seek(before func(v int32) bool) Place {
	// The last page whose first slot is before holds the border.
	page := sort.Search(len(o.pages), func(i int) bool { return !before(o.pages[i][0]) })
	if page == 0 {
		return Place{}
	}
	page--
	p := o.pages[page]
	return Place{page, sort.Search(len(p), func(i int) bool { return !before(p[i]) })}
}

// Next is the slot at a place, and steps to the next one; false at the end.
func (o *Order) Next(p *Place) (v int32, ok bool) {
	for p.page < len(o.pages) {
		if page := o.pages[p.page]; p.at < len(page) {
			v = page[p.at]
			p.at++
			return v, true
		}
		p.page++
		p.at = 0
	}
	return 0, false
}

// Insert adds a slot, which must not be here.
func (o *Order) Insert(v int32) {
	o.n++
	if len(o.pages) == 0 {
		o.pages = append(o.pages, append(make([]int32, 0, 4), v))
		return
	}
	last := len(o.pages) - 1
	at := Place{last, len(o.pages[last])}
	if end := o.pages[last]; !o.Less(end[len(end)-1], v) {
		at = o.Seek(func(x int32) bool { return o.Less(x, v) })
	}
	p := o.pages[at.page]
	if len(p) < orderPage {
		p = append(p, 0)
		copy(p[at.at+1:], p[at.at:])
		p[at.at] = v
		o.pages[at.page] = p
		return
	}
	half := orderPage / 2
	if at.page == last && at.at == orderPage {
		half = orderPage // they come in order: what is full stays so
	}
	next := append(make([]int32, 0, orderPage), p[half:]...)
	o.pages[at.page] = p[:half]
	o.pages = append(o.pages, nil)
	copy(o.pages[at.page+2:], o.pages[at.page+1:])
	if at.at < half {
		p = p[: half+1 : orderPage]
		copy(p[at.at+1:], p[at.at:half])
		p[at.at] = v
		o.pages[at.page] = p
	} else {
		i := at.at - half
		next = append(next, 0)
		copy(next[i+1:], next[i:])
		next[i] = v
	}
	o.pages[at.page+1] = next
}

// Remove takes a slot out; false where it is not here.
func (o *Order) Remove(v int32) bool {
	at := o.Seek(func(x int32) bool { return o.Less(x, v) })
	look := at
	if got, ok := o.Next(&look); !ok || got != v {
		return false
	}
	i, page := look.at-1, look.page
	p := o.pages[page]
	copy(p[i:], p[i+1:])
	p = p[:len(p)-1]
	o.pages[page] = p
	if o.n--; o.n == 0 {
		o.pages = nil
		return true
	}
	if len(p) == 0 {
		o.drop(page)
		return true
	}
	// Two neighbours that fit in half a page become one, so that pages stay worth their room.
	for _, left := range [...]int{page - 1, page} {
		if left >= 0 && left+1 < len(o.pages) && len(o.pages[left])+len(o.pages[left+1]) <= orderPage/2 {
			o.pages[left] = append(o.pages[left], o.pages[left+1]...)
			o.drop(left + 1)
			break
		}
	}
	return true
}

func (o *Order) drop(page int) {
	copy(o.pages[page:], o.pages[page+1:])
	o.pages[len(o.pages)-1] = nil
	o.pages = o.pages[:len(o.pages)-1]
	if len(o.pages) < cap(o.pages)/4 {
		o.pages = append(make([][]int32, 0, 2*len(o.pages)), o.pages...)
	}
}
