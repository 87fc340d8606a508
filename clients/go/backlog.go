package analytics

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A call lives so:
//
//	put ──▶ waiting ──▶ out ──▶ settled          next() hands it out in a batch; settle() says it is answered for
//	           │                   ▲
//	           └──▶ dropped ───────┘             no room, and the policy is DropOldest: out, but only to be reported
//
// Calls are numbered in the order they were accepted, and leave "waiting" in that order. So "everything accepted before
// now is answered for" is: nothing that waits, and no batch that is out, has a number below the next one of now.

// mostUnreported bounds the dropped calls that wait to be reported; calls then wait for the callback.
const mostUnreported = 1000

// batch is a number of calls handed out together.
type batch struct {
	*taken
	// first is the number of its first call.
	first uint64
	// fate is nil for a batch to be sent; otherwise the reason why it is only to be reported.
	fate error
}

// backlog holds what is accepted and not answered for, and decides when it is due. It is safe for concurrent use.
type backlog struct {
	flushAt    int
	flushAfter time.Duration
	room       int // bytes a batch has for its calls
	uploads    int
	policy     WhenFull
	keeps      bool // calls outlive the process

	// wake has one place: it tells the dispatcher to ask next() again.
	wake chan struct{}

	mu    sync.Mutex
	store store
	// head is the number of the oldest waiting call, end that of the next one to be accepted.
	head, end uint64
	// goal: calls with a lower number go at once.
	goal uint64
	// due is when everything that waits goes; it means nothing while nothing waits. flushed is the last flush.
	due, flushed time.Time
	out          []*batch
	sending      int // batches in out that are being sent
	unreported   int // calls in out that were dropped
	drops        []*batch
	closing      bool
	aborted      bool
	// changed is closed, and replaced, when a batch is settled; nil while nothing waits for that.
	changed chan struct{}
}

func newBacklog(c Config, s store, room int, now time.Time) *backlog {
	waiting := uint64(s.waiting())
	return &backlog{
		flushAt:    c.FlushAt,
		flushAfter: c.FlushAfter,
		room:       room,
		uploads:    c.Uploads,
		policy:     c.WhenFull,
		keeps:      c.Spool != nil,
		wake:       make(chan struct{}, 1),
		store:      s,
		end:        waiting,
		goal:       waiting, // What an earlier process left has waited long enough.
		flushed:    now,
	}
}

// put accepts a call. It returns an error if there is no room and none comes before ctx ends, or by policy.
func (b *backlog) put(ctx context.Context, body []byte, now time.Time) error {
	b.mu.Lock()
	for {
		fits, err := b.makeRoom(len(body))
		if fits {
			break
		}
		b.goal = b.end // No reason to wait for more calls when there is no room for them.
		changed := b.watch()
		b.mu.Unlock()
		b.signal()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("analytics: no room for another call: %w", ctx.Err())
		}
		b.mu.Lock()
	}
	err := b.store.add(body)
	if err != nil {
		b.mu.Unlock()
		return err
	}
	first := b.head == b.end
	if first {
		b.due = nextDue(b.flushed, now, b.flushAfter)
	}
	b.end++
	full := (b.end-b.head)%uint64(b.flushAt) == 0
	dropped := len(b.drops) > 0
	b.mu.Unlock()
	// The dispatcher has nothing to do for any other call, and waking it costs more than the call.
	if first || full || dropped {
		b.signal()
	}
	return nil
}

// makeRoom says whether a call fits, after dropping older ones where that is the policy.
func (b *backlog) makeRoom(size int) (fits bool, err error) {
	for {
		switch {
		case b.closing:
			return false, ErrClosed
		case b.store.fits(size):
			return true, nil
		case b.policy == Refuse:
			return false, ErrFull
		case b.policy == Block || b.unreported >= mostUnreported:
			return false, nil
		}
		dropped := b.store.drop()
		if dropped.count() == 0 {
			return false, ErrFull
		}
		b.unreported += dropped.count()
		b.drops = append(b.drops, b.handOut(dropped, ErrDropped))
	}
}

// handOut numbers calls that have just left the store's waiting ones.
func (b *backlog) handOut(t *taken, fate error) *batch {
	out := &batch{taken: t, first: b.head, fate: fate}
	b.head += uint64(t.count())
	b.out = append(b.out, out)
	return out
}

// settle says that a batch is answered for and every callback about it has returned.
func (b *backlog) settle(done *batch) {
	b.mu.Lock()
	if done.fate != ErrDropped { // The store forgot it when it dropped it.
		b.store.forget(done.taken)
	}
	b.remove(done)
	b.mu.Unlock()
	b.signal()
}

// leave takes a batch back from the dispatcher without an answer: it stays in the spool for the next process.
func (b *backlog) leave(kept *batch) {
	b.mu.Lock()
	b.remove(kept)
	b.mu.Unlock()
	b.signal()
}

func (b *backlog) remove(gone *batch) {
	for n, each := range b.out {
		if each == gone {
			b.out = append(b.out[:n], b.out[n+1:]...)
			break
		}
	}
	if gone.fate == nil {
		b.sending--
	}
	if gone.fate == ErrDropped {
		b.unreported -= gone.count()
	}
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// flush makes everything accepted so far due and returns the number that answered takes.
func (b *backlog) flush() uint64 {
	b.mu.Lock()
	b.goal = b.end
	mark := b.end
	b.mu.Unlock()
	b.signal()
	return mark
}

// answered says whether every call with a number below mark is answered for; if not, the channel is closed when it is worth
// asking again.
func (b *backlog) answered(mark uint64) (bool, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	done := b.head >= mark
	for _, each := range b.out {
		done = done && each.first >= mark
	}
	if done {
		return true, nil
	}
	return false, b.watch()
}

func (b *backlog) watch() <-chan struct{} {
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// close refuses further calls and makes all that wait due.
func (b *backlog) close() {
	b.mu.Lock()
	b.closing = true
	if b.changed != nil { // Calls that wait for room look again and see it.
		close(b.changed)
		b.changed = nil
	}
	b.mu.Unlock()
	b.signal()
}

// abort ends sending: what waits is given up, or stays in the spool.
func (b *backlog) abort() {
	b.mu.Lock()
	b.aborted = true
	b.mu.Unlock()
	b.signal()
}

// signal never blocks: one place in the channel is enough, because the dispatcher looks at everything when it wakes.
func (b *backlog) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
