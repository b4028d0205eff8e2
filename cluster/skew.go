//go:build !chaos

package cluster

// skew is the clock setter of chaos builds; here it is nothing.
type skew struct{}

func (skew) millis() int64 { return 0 }

func (skew) begin() {}
