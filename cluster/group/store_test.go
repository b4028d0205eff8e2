package group

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// slowDisk is a log store whose writes hang while hang is set.
type slowDisk struct {
	raft.LogStore
	hang atomic.Pointer[chan struct{}]
}

func (s *slowDisk) StoreLogs(logs []*raft.Log) error {
	if ch := s.hang.Load(); ch != nil {
		<-*ch
	}
	return s.LogStore.StoreLogs(logs)
}

func (s *slowDisk) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }
