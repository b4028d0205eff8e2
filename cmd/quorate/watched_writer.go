package main

import (
	"io"
	"sync"
)

// watchedWriter passes on what is written and keeps the first error, so that no line of output is lost without a word: a script
// that stores the id which a command prints has to hear that there is none. After an error nothing more is written. It may be used
// by many goroutines.
type watchedWriter struct {
	w io.Writer

	mu  sync.Mutex
	err error
}

func (o *watchedWriter) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}

// failed is the first error.
func (o *watchedWriter) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// underlying is the writer behind a watched one.
func underlying(w io.Writer) io.Writer {
	if o, ok := w.(*watchedWriter); ok {
		return o.w
	}
	return w
}
