// Package observe tests what operators see of a cluster: that Prometheus' own parser, rules and queries get along with /metrics, and that
// every query of the dashboard (scripts/grafana/quorate.json) has data and every alert (scripts/prometheus/alerts.yml) names
// metrics that are there.
//
//	three nodes ◀── work of every kind ── client
//	     ▲
//	     └── scrapes, each second ── prometheus ◀── the dashboard's queries, the alerts' metrics ── test
//
// Prometheus is Debian's, from where scripts/setup puts it (.tools/prometheus) or from the path. Without it these tests are skipped.
package observe
