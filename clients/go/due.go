package analytics

import "time"

// step is what the dispatcher shall do now: start a batch, or wait until woken or, if wait is positive, so long; or end.
type step struct {
	batch *batch
	wait  time.Duration
	end   bool
}

// next decides. The order of its questions is the order of urgency.
func (b *backlog) next(now time.Time) step {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.drops) > 0 {
		dropped := b.drops[0]
		b.drops = b.drops[1:]
		return step{batch: dropped}
	}
	waiting := b.end - b.head
	if waiting == 0 {
		return step{end: b.closing && len(b.out) == 0}
	}
	if b.aborted {
		return b.giveUp()
	}
	switch {
	case b.closing || !now.Before(b.due):
		b.goal = b.end
	case b.goal <= b.head && waiting >= uint64(b.flushAt):
		b.goal = b.head + uint64(b.flushAt)
	}
	if b.goal <= b.head {
		return step{wait: b.due.Sub(now)}
	}
	if b.sending >= b.uploads {
		return step{}
	}
	calls := b.flushAt
	if left := b.goal - b.head; left < uint64(calls) {
		calls = int(left)
	}
	return step{batch: b.send(calls, now)}
}

// send hands out a batch to be sent.
func (b *backlog) send(calls int, now time.Time) *batch {
	out := b.handOut(b.store.take(calls, b.room), nil)
	b.sending++
	b.flushed, b.due = now, now.Add(b.flushAfter)
	return out
}

// giveUp hands out what waits when the time for closing is over: to be reported as unsent, or, with a spool, not at all.
func (b *backlog) giveUp() step {
	if b.keeps {
		return step{end: len(b.out) == 0}
	}
	return step{batch: b.handOut(b.store.take(mostCalls, b.room), ErrUnsent)}
}

// nextDue is the first moment after now that lies a whole number of intervals after the last flush. An idle client needs no
// timer that way, and yet what comes waits for less than an interval, as if one had been running.
func nextDue(flushed, now time.Time, every time.Duration) time.Time {
	return now.Add(every - now.Sub(flushed)%every)
}
