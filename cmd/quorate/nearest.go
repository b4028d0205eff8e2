package main

import "strings"

// nearest is the one of words that was perhaps meant by a word that is none of them; "" where none is near. Near is one letter in three
// that is put in, taken out or changed, two at most, or a beginning that only one of the words has.
func nearest(word string, words []string) string {
	found, best := "", min(2, len(word)/3)
	for _, w := range words {
		if d := distance(word, w); d < best || d == best && found == "" {
			found, best = w, d
		}
	}
	if found != "" || len(word) < 3 {
		return found
	}
	for _, w := range words {
		if !strings.HasPrefix(w, word) {
			continue
		}
		if found != "" {
			return ""
		}
		found = w
	}
	return found
}

// distance is how many letters must be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
