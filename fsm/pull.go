package fsm

// opPull is a Lease that waits: the leader proposes it when there should be something to lease, and if that has ended in the same
// entry the request goes on waiting. Its fields are those of opLease.
const opPull uint8 = 19

func (o *Lease) opNumber() uint8 {
	if o.Waits {
		return opPull
	}
	return opLease
}

// answers says whether an outcome of the operation is its answer, to be remembered under its request.
func (o *Lease) answers(out *Outcome) bool { return !o.Waits || out.Code != OK || out.LeaseCount > 0 }
