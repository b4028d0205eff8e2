package httpapi

import (
	"bytes"
	"sync"
	"testing"
)

// Several nodes of one process make their documents at once, and alike.
func TestDocumentsMadeAtOnce(t *testing.T) {
	t.Parallel()
	const nodes = 4
	var docs [nodes][]byte
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			var err error
			if docs[i], err = document(table(), nil, "test"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := 1; i < nodes; i++ {
		if !bytes.Equal(docs[0], docs[i]) {
			t.Errorf("document %d is not as the first", i)
		}
	}
}
