package fsm

import "github.com/quorate/quorate/fsm/table"

// hashID is the hash of an id for the indexes. Ids of one entry differ in their last bits and are used one after the other;
// eight such neighbours share a line of the index.
func hashID(id ID) uint64 { return table.HashID(id.Hi, id.Lo>>3)&^7 | id.Lo&7 }
