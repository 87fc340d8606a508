package analytics

// store keeps accepted calls in their order until they are answered for: in memory, or in a spool on disk. Its methods are
// called one at a time, under the lock of the backlog.
type store interface {
	// fits says whether there is room for one more call of this size.
	fits(size int) bool
	// add keeps a call as the newest one. After an error nothing of it is kept.
	add(body []byte) error
	// take hands out the oldest waiting calls: at most so many, of at most so many bytes with a comma each, but one call
	// if any waits. They stay in the store until forget.
	take(calls, bytes int) *taken
	// drop removes the oldest waiting calls for good to make room; none when every call is already handed out. There is nothing
	// left to forget of them.
	drop() *taken
	// forget removes calls that were handed out and are answered for, in whatever order that happens.
	forget(*taken)
	// waiting is the number of calls not handed out yet.
	waiting() int
	// close gives back what the store holds. What it keeps on disk stays there.
	close() error
}

// taken is what a store handed out.
type taken struct {
	bodies [][]byte
	// lost is the number of calls behind the bodies that could not be read; they are gone.
	lost int
	// end is where the spool goes on reading, and done whether the calls before it are answered for.
	end  position
	done bool
}

// count is the number of calls it stands for.
func (t *taken) count() int { return len(t.bodies) + t.lost }
