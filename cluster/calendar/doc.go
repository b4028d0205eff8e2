// Package calendar turns a cron expression and a time zone into fire times.
//
// The state machine knows neither: fire times are computed by the leader, which writes each into the log, so that nodes
// with other time zone data cannot disagree. Doors use this package to refuse what has no meaning, the leader to go on.
//
// # Expressions
//
// Five fields (minute, hour, day of month, month, day of week), or six with seconds before them, or one of @yearly,
// @monthly, @weekly, @daily, @hourly, or @every with a duration of one second or more. Where both days are restricted, one
// of them has to match, as cron has it. @every counts from the last fire time, and at first from the moment the schedule
// was made.
//
// # Clocks that are put forward and back
//
// Fire times are read on the zone's clock. A time that the clock leaps over in spring does not come that day: 02:30 in
// Berlin has no firing on that Sunday. A time that the clock passes twice in autumn comes twice, an hour apart. Who wants
// neither takes UTC or an hour that is not touched.
//
// # Decisions (2026-11)
//
// The parser is robfig/cron's. What it would take in the expression itself (TZ=) is refused: a zone has one place. "Local"
// is refused: it means something else on every node.
package calendar
