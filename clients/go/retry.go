package analytics

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Retry says how often a batch is tried and how long the client waits in between. A batch is tried again when no answer
// came, and after 408, 429 and 5xx except 501 and 505; any other status but 2xx refuses it for good, redirects too.
// (spec/specification.md, "Retries of a client")
type Retry struct {
	// Tries is how often a batch is tried in all, the first time included. Default: 10. A client with a spool never
	// gives up.
	Tries int
	// First is the longest wait after the first try; it doubles with each try. Half to the whole of it is waited, at random,
	// so that many clients do not come back at once. Default: 0.5 seconds.
	First time.Duration
	// Longest bounds the wait. Default: 60 seconds.
	Longest time.Duration
}

// longestRetryAfter bounds what a server can ask for.
const longestRetryAfter = 300 * time.Second

func (r Retry) normalize() (Retry, error) {
	if r.Tries == 0 {
		r.Tries = 10
	}
	if r.First == 0 {
		r.First = 500 * time.Millisecond
	}
	if r.Longest == 0 {
		r.Longest = 60 * time.Second
	}
	if r.Tries < 0 {
		return r, &ConfigError{"Retry.Tries", "must not be negative"}
	}
	if r.First < 0 || r.Longest < r.First {
		return r, &ConfigError{"Retry.First", "must not be negative and not longer than Retry.Longest"}
	}
	return r, nil
}

// wait is how long to wait after so many tries. after is what the server asked for, 0 if nothing; draw is a random number in
// [0, 1).
func (r Retry) wait(tries int, after time.Duration, draw float64) time.Duration {
	full := r.Longest
	// Beyond 30 doublings the shift would overflow, and any first wait has reached any sensible bound.
	if tries <= 30 && r.First<<(tries-1) < r.Longest {
		full = r.First << (tries - 1)
	}
	wait := full/2 + time.Duration(draw*float64(full/2))
	if after > wait {
		// Clients told the same number must not come back together either.
		wait = after + time.Duration(draw*float64(after/10))
	}
	return wait
}

// outcome is what one try did with a batch.
type outcome int

const (
	delivered outcome = iota
	refused
	retryable
)

func outcomeOf(status int) outcome {
	switch {
	case status >= 200 && status <= 299:
		return delivered
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		return retryable
	case status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		return refused
	case status >= 500:
		return retryable
	}
	return refused
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	var after time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 63); err == nil {
		if seconds > uint64(longestRetryAfter/time.Second) {
			return longestRetryAfter
		}
		after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		after = at.Sub(now)
	}
	switch {
	case after < 0:
		return 0
	case after > longestRetryAfter:
		return longestRetryAfter
	}
	return after
}

// dice draws the random part of waits. It has a seed of its own: before Go 1.20 the global one draws the same numbers in
// every process, which is just the herd the random part is there to prevent.
type dice struct {
	mu     sync.Mutex
	source *rand.Rand
}

func newDice(now time.Time) *dice {
	seed := now.UnixNano()
	var random [8]byte
	if _, err := crand.Read(random[:]); err == nil {
		seed ^= int64(binary.LittleEndian.Uint64(random[:]))
	}
	return &dice{source: rand.New(rand.NewSource(seed))}
}

func (d *dice) draw() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.source.Float64()
}
