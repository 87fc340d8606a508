/*
Package analytics records identify, track, page, screen, group and alias calls and sends them in batches to a Millrace server, or
to any other that speaks the same protocol.

	client := analytics.New("WRITE_KEY")
	defer client.Close()

	err := client.Track(&analytics.Track{
		UserId:     "u1",
		Event:      "Signed Up",
		Properties: map[string]interface{}{"plan": "pro"},
	})

# What happens to a call

A call is checked, copied as JSON, given an id and a time, and put into a queue; the method then returns. A call that is not
accepted returns an error and concerns no other call: an id or the event is missing, the JSON has more than 32 KB or holds a value JSON
cannot, the queue is full, the client is closed. Code names the reason.

An accepted call is sent in the background: as soon as FlushAt calls wait (20) or FlushAfter has passed since the last flush (5
seconds), in requests of at most 500 KB. What may pass is tried again with the same ids, ten times in about three minutes unless
the server asks for longer waits: no answer, and the statuses 408, 429 and 5xx but 501 and 505. Calls are never lost
without a word: each one is, in the end, delivered, or reported to Config.OnFailure and to the log.

Between calls and the server the order of batches is not kept, because several are under way at once.

# Memory, and what happens when it is full

At most Config.MaxCalls calls (10,000) of Config.MaxBytes bytes (32 MB) are kept, those under way included. When there is no room,
Config.WhenFull decides: Block lets the call wait (Enqueue bounds that with a context), DropOldest pushes out the oldest calls and
reports them, Refuse returns ErrFull. The default is Block, as in earlier versions: during an outage a call may then wait until a
batch is given up.

# Ending

Close sends what waits, for at most 10 seconds, and returns a *LossError if calls were lost, then or at any time before: it says how
many, and why the last of them were. CloseContext takes the bound from a context. Both may be called any number of times, by any number of goroutines. Flush sends what waits and
leaves the client open; when it returns nil, every call accepted before it is answered for.

A program that ends without Close, by os.Exit, log.Fatal, a panic or a signal it does not catch, takes the calls that wait with it. With
Config.Spool they are on disk, and the next client with the same folder sends them: they survive SIGKILL, and with Spool.Sync a power
failure.

# Other processes

A client belongs to the process that made it. Go programs do not fork; what they start with os/exec is another program, which
inherits neither the queue nor the lock of the spool. Make a client in each process, and give each its own spool folder: a
folder that is in use is refused with a *SpoolError. On systems other than Linux, the BSDs, macOS and Windows there is no such
lock.

# Logging

Losses, and the beginning and the end of an outage, are always logged. Verbose, or the environment variable DEBUG with the value
analytics, logs every request. Write keys and the contents of calls are never logged.
*/
package analytics
