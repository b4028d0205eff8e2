// Package nemesis runs real nodes under a schedule of faults, has what clients saw judged, and tells what came of it.
//
//	seed ─▶ Draw ─▶ Schedule (JSON) ─▶ engine ─▶ nodes (bench/proc), disks (forgetfs), Network
//	                                     │            ▲
//	                 workload ───────────┼────────────┘ requests
//	                     │ events        │ what was done to whom, and when it was healed
//	                     ▼               ▼
//	              history.Judge ──▶ Result ──▶ report.html, report.json, a line of a ledger
package nemesis
