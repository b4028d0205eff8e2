package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The track record of bench/VERIFY.md names tests that there are, and adds up to what it says, and the README after it.
func TestTrackRecord(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../VERIFY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, record, found := strings.Cut(string(b), "\n## Track record\n")
	if !found {
		t.Fatal("bench/VERIFY.md has no track record")
	}
	record, _, _ = strings.Cut(record, "\n## ")
	sources := tests(t)
	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(record, -1) {
		if !sources[name] {
			t.Errorf("there is no test %s", name)
		}
	}
	number := regexp.MustCompile(`(?m)\| (\d+) \|$`)
	var sums []int
	for i, table := range strings.SplitAfter(record, " in all.\n") {
		said := regexp.MustCompile(`(?m)^(\d+) in all\.$`).FindStringSubmatch(table)
		if said == nil {
			continue
		}
		sum := 0
		for _, n := range number.FindAllStringSubmatch(table, -1) {
			v, err := strconv.Atoi(n[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
		if fmt.Sprint(sum) != said[1] {
			t.Errorf("table %d says %s in all, and has %d", i+1, said[1], sum)
		}
		sums = append(sums, sum)
	}
	if len(sums) != 2 {
		t.Fatalf("%d tables add up, want that of Quorate's faults and that of its tests'", len(sums))
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d faults found in Quorate", sums[0])
	if !strings.Contains(string(readme), want) || !strings.Contains(string(readme), fmt.Sprintf("and %d in its tests", sums[1])) {
		t.Errorf("README.md does not say %q, and %d in its tests", want, sums[1])
	}
}

// tests are the names of all tests in the sources.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && strings.HasPrefix(e.Name(), ".") && len(e.Name()) > 2:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
			names[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
