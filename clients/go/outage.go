package analytics

import (
	"errors"
	"log"
	"sync"
	"time"
)

// quietAfter is how long an outage is not mentioned after the last one was, so that a server that works every other time does
// not fill the log.
const quietAfter = time.Minute

// outage logs when tries begin to fail and when they succeed again, instead of every try.
type outage struct {
	log *log.Logger

	mu      sync.Mutex
	failing bool
	told    bool // whether the log knows
	last    time.Time
	err     error // of the last try, when it failed
}

// failed and succeeded are told of every try that ends so.
func (o *outage) failed(err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
	if o.failing {
		return
	}
	o.failing = true
	if now.Sub(o.last) < quietAfter {
		return
	}
	o.told, o.last = true, now
	o.log.Printf("sending fails, trying again: %v", err)
}

func (o *outage) succeeded() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failing, o.err = false, nil
	if o.told {
		o.told = false
		o.log.Printf("sending works again")
	}
}

// refused is told of every answer that sending again cannot better: there is a server.
func (o *outage) refused() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = nil
}

// unanswered is why the last try had no answer; nil when it had one, or there was none.
func (o *outage) unanswered() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var answer *StatusError
	if errors.As(o.err, &answer) {
		return nil
	}
	return o.err
}
