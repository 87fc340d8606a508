package analytics

import (
	"errors"
	"sync"
)

// losses counts the accepted calls that were lost, for what Close returns.
type losses struct {
	mu   sync.Mutex
	last LossError
}

// add counts calls that ended so; delivered ones have no error.
func (l *losses) add(calls int, err error) {
	if err == nil || calls == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last.Calls += calls
	if errors.Is(err, ErrUnsent) {
		l.last.Unsent += calls
	}
	l.last.Err = err
}

// err is nil when nothing was lost.
func (l *losses) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.Calls == 0 {
		return nil
	}
	loss := l.last
	return &loss
}
