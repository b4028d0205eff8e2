package group

import "github.com/quorate/quorate/fsm"

// connOf is the connection over which a consumer can be told something now, nil if there is none. The state lock is held.
func (d *dispatcher) connOf(c fsm.Consumer) Conn {
	if sub := d.subs[c]; sub != nil && !sub.dormant {
		return sub.session.conn
	} else if s := d.sessions[c.Session]; s != nil && c.Sub == 0 {
		return s.conn
	}
	return nil
}

// tellCancelled tells the workers whose tasks the entry just applied has cancelled. Their leases have not ended: the windows
// stay as they are. A worker that is offline is told when it resumes. The state lock is held.
func (g *Group) tellCancelled() {
	d := &g.dispatch
	list := g.fx.Cancelled
	for i := range list {
		d.gone = append(d.gone, list[i].Token)
		if i+1 < len(list) && list[i+1].Consumer == list[i].Consumer {
			continue
		}
		if conn := d.connOf(list[i].Consumer); conn != nil {
			conn.LeaseCancelled(list[i].Consumer.Sub, d.gone)
			g.flushes.add(conn)
		}
		d.gone = d.gone[:0]
	}
}
