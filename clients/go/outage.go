package analytics

import (
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
}

// failed and succeeded are told of every try that ends so.
func (o *outage) failed(err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
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
	o.failing = false
	if o.told {
		o.told = false
		o.log.Printf("sending works again")
	}
}
