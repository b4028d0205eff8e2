package group

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// dying is a stable store of which the process is gone after some writes.
type dying struct {
	raft.StableStore
	left int
}

var errGone = errors.New("the process is gone")

func (d *dying) write(f func() error) error {
	if d.left == 0 {
		return errGone
	}
	d.left--
	return f()
}

func (d *dying) Set(key, val []byte) error {
	return d.write(func() error { return d.StableStore.Set(key, val) })
}

func (d *dying) SetUint64(key []byte, val uint64) error {
	return d.write(func() error { return d.StableStore.SetUint64(key, val) })
}

// A vote that is half written makes no vote for whom this node had voted before. (G1; hashicorp/raft#661)
func TestHalfAVote(t *testing.T) {
	for _, tc := range []struct {
		name   string
		writes int
		term   uint64
		whom   string
	}{
		{"none of it", 0, 7, "the one before"},
		{"half of it", 1, 7, "the next one"},
		{"all of it", 2, 8, "the next one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := NewAhead(sealing{raft.NewInmemStore()}, 0)
			defer log.Close()
			disk := raft.NewInmemStore()
			vote := func(s raft.StableStore, term uint64, whom string) error { // as raft does, persistVote
				return errors.Join(s.SetUint64([]byte(voteTermKey), term), s.Set([]byte(voteKey), []byte(whom)))
			}
			check(t, vote(log.Stable(disk), 7, "the one before"))
			err := vote(log.Stable(&dying{disk, tc.writes}), 8, "the next one")
			if (err != nil) != (tc.writes < 2) {
				t.Errorf("the vote: %v", err)
			}
			term, err := disk.GetUint64([]byte(voteTermKey))
			check(t, err)
			whom, err := disk.Get([]byte(voteKey))
			check(t, err)
			if term != tc.term || string(whom) != tc.whom {
				t.Errorf("the disk has a vote in term %d for %s, want %d, %s", term, whom, tc.term, tc.whom)
			}
		})
	}
}

// A vote that could not be written leaves nothing to the next one.
func TestVoteAfterAFailedOne(t *testing.T) {
	log := NewAhead(sealing{raft.NewInmemStore()}, 0)
	defer log.Close()
	disk := &dying{StableStore: raft.NewInmemStore()}
	s := log.Stable(disk)
	check(t, s.SetUint64([]byte(voteTermKey), 7))
	if err := s.Set([]byte(voteKey), []byte("x")); !errors.Is(err, errGone) {
		t.Errorf("a vote that cannot be written: %v", err)
	}
	disk.left = 9
	check(t, s.Set([]byte("another key"), []byte("y")))
	check(t, s.Set([]byte(voteKey), []byte("z")))
	if term, err := disk.GetUint64([]byte(voteTermKey)); err == nil && term != 0 {
		t.Errorf("the term of the vote that failed was written, %d", term)
	}
}
