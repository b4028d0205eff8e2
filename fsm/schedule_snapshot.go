package fsm

// Sections of schedules.
const (
	sectionScheduleGens uint8 = 40 + iota // one record: the last generation given
	sectionSchedules                      // by name
)

// writeSchedules writes both sections.
func (v *View) writeSchedules(f *frameWriter) {
	f.section(sectionScheduleGens)
	f.record()
	f.uvarint(v.scheduleGens)
	f.section(sectionSchedules)
	for _, slot := range v.scheduleNames {
		d, st := v.scheduleDefs[slot], v.schedules.Get(slot)
		f.record()
		f.text(d.name)
		f.text(d.queue)
		f.text(d.cron)
		f.text(d.zone)
		f.uvarint(d.generation)
		f.varint(d.jitter)
		f.u8(uint8(d.policy))
		f.bool(d.paused)
		f.bool(d.autoCreate)
		f.varint(d.created)
		f.varint(d.changed)
		f.text(d.message)
		f.varint(st.next)
		f.varint(st.from)
		f.varint(st.last)
		f.id(st.lastID)
		f.varint(st.fired)
		f.varint(st.skipped)
		f.varint(st.refused)
		f.varint(st.failedAt)
		f.u8(uint8(st.code))
		f.u8(uint8(st.field))
	}
}

func (rs *restorer) scheduleGens() {
	f := rs.f
	n := 0
	for f.more() {
		rs.s.scheduleGens = f.uvarint()
		n++
	}
	if f.err() == nil && n != 1 {
		f.fail("%d records of the last generation, want 1", n)
	}
}

func (rs *restorer) schedules() {
	s, f := rs.s, rs.f
	last := ""
	for f.more() {
		d := &scheduleDef{
			name: f.str(MaxScheduleName), queue: f.str(MaxQueueName), cron: f.str(MaxCron), zone: f.str(MaxZone),
			generation: f.uvarint(), jitter: f.varint(), policy: MissedPolicy(f.u8()), paused: f.bool(), autoCreate: f.bool(),
			created: rs.instant(), changed: rs.instant(), message: f.str(MaxBodyBytes + 64<<10),
		}
		st := scheduleState{
			next: f.varint(), from: rs.instant(), last: rs.instant(), lastID: f.id(), fired: f.varint(), skipped: f.varint(),
			refused: f.varint(), failedAt: rs.instant(), code: Code(f.u8()), field: Field(f.u8()),
		}
		if f.err() != nil {
			return
		}
		var c Schedule
		var dec Decoder
		whole := dec.template([]byte(d.message), &c.Message)
		c.Name, c.Queue, c.Cron, c.Zone = []byte(d.name), []byte(d.queue), []byte(d.cron), []byte(d.zone)
		c.JitterMillis, c.Policy = d.jitter, d.policy
		_, _, valid := ValidateSchedule(&c)
		switch {
		case d.name <= last:
			f.fail("schedule %q after %q", d.name, last)
		case !whole || !valid || string(appendMessage(nil, &c.Message)) != d.message:
			f.fail("schedule %q is not one that could have been made", d.name)
		case d.generation == 0 || d.generation > s.scheduleGens || st.next < FireNever || st.next > MaxTime:
			f.fail("schedule %q has generation %d of %d and next time %d", d.name, d.generation, s.scheduleGens, st.next)
		case st.fired < 0 || st.skipped < 0 || st.refused < 0:
			f.fail("schedule %q has a negative total", d.name)
		}
		if f.err() != nil {
			return
		}
		last = d.name
		s.addSchedule(d, st)
	}
}
