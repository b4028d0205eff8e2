package schema

// maxParts is how many parts a schema may have, which are objects and booleans: each becomes a kilobyte, and the time that they take grows with
// their square, to a tenth of a second for so many.
const maxParts = 5000

// What a compiled schema takes, measured and rounded up.
const (
	partBytes        = 1200
	objectBytes      = 400
	valueBytes       = 100
	instructionBytes = 120
)

// weight is what a schema comes to before it is compiled.
type weight struct{ parts, objects, values int }

// add counts a value of a schema, which is bounded.
func (w *weight) add(v any) {
	w.values++
	switch v := v.(type) {
	case bool:
		w.parts++
	case []any:
		for _, x := range v {
			w.add(x)
		}
	case map[string]any:
		w.objects++
		w.parts++
		for _, x := range v { // of const and enum too: a reference may have anything be a schema
			w.add(x)
		}
	}
}

// bytes is about what it takes when it is compiled, with patterns of so many instructions.
func (w *weight) bytes(text, instructions int) int {
	return 2*text + w.parts*partBytes + w.objects*objectBytes + w.values*valueBytes + instructions*instructionBytes
}
