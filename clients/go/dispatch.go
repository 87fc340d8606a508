package analytics

import (
	"context"
	"net/http"
	"time"
)

// dispatcher is a client at work: one goroutine that asks the backlog what is due, and one for each batch under way.
type dispatcher struct {
	config   Config
	backlog  *backlog
	uploader *uploader
	// sending ends when the time for closing is over.
	sending context.Context
	cancel  context.CancelFunc
	losses  losses
	// dropped calls are not in the log yet; droppedAt is when some were written there.
	dropped   int
	droppedAt time.Time
	// finished is closed when nothing runs any more; closeErr is what Close returns, to be read only then.
	finished chan struct{}
	closeErr error
}

// start makes a dispatcher and sets it to work.
func start(key string, client http.Client, c Config) (*dispatcher, error) {
	if key == "" {
		return nil, &ConfigError{"the write key", "is missing"}
	}
	c, err := c.normalize()
	if err != nil {
		return nil, err
	}
	envelope, err := newEnvelope(key, c)
	if err != nil {
		return nil, err
	}
	d := &dispatcher{config: c, uploader: newUploader(envelope, client, c), finished: make(chan struct{})}
	var s store = newMemory(c.MaxCalls, c.MaxBytes)
	if c.Spool != nil {
		if s, err = openSpool(*c.Spool, c.Logger); err != nil {
			return nil, err
		}
	}
	d.backlog = newBacklog(c, s, envelope.room(), time.Now())
	d.sending, d.cancel = context.WithCancel(context.Background())
	go d.run()
	return d, nil
}

func (d *dispatcher) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := d.backlog.next(time.Now())
		switch {
		case now.end:
			d.end()
			return
		case now.batch == nil:
			// A timer that fired meanwhile wakes it once too often, which costs nothing.
			if now.wait > 0 {
				timer.Reset(now.wait)
			}
			select {
			case <-d.backlog.wake:
			case <-timer.C:
			}
		case now.batch.fate != nil:
			d.report(now.batch, 0, now.batch.fate)
			d.backlog.settle(now.batch)
		default:
			go d.deliver(now.batch)
		}
	}
}

// deliver sees one batch through.
func (d *dispatcher) deliver(b *batch) {
	var tries int
	var err error
	if len(b.bodies) > 0 {
		d.uploader.logf("sending %d calls", len(b.bodies))
		tries, err = d.uploader.upload(d.sending, b.bodies)
	}
	if err == ErrUnsent && d.config.Spool != nil {
		d.backlog.leave(b)
		return
	}
	d.report(b, tries, err)
	d.backlog.settle(b)
}

// report calls the callbacks for each call of a batch and logs losses.
func (d *dispatcher) report(b *batch, tries int, err error) {
	switch err {
	case nil:
	case ErrDropped:
		d.logDropped(len(b.bodies), time.Now())
	case ErrUnsent:
		if cause := d.uploader.outage.unanswered(); cause != nil {
			err = &UnreachableError{cause}
		}
		fallthrough
	default:
		d.config.Logger.Printf("%d calls lost: %v", len(b.bodies), err)
	}
	d.losses.add(len(b.bodies), err)
	for _, body := range b.bodies {
		if err == nil && d.config.OnSuccess != nil {
			d.config.OnSuccess(newReport(body, tries))
		}
		if err != nil && d.config.OnFailure != nil {
			d.config.OnFailure(newReport(body, tries), err)
		}
	}
	if b.lost == 0 {
		return
	}
	d.losses.add(b.lost, ErrSpoolDamaged)
	d.config.Logger.Printf("%d calls lost: %v", b.lost, ErrSpoolDamaged)
	for n := 0; n < b.lost && d.config.OnFailure != nil; n++ {
		d.config.OnFailure(Report{}, ErrSpoolDamaged)
	}
}

// logDropped logs at most once a second: a client that drops drops with every call. Only run calls it.
func (d *dispatcher) logDropped(calls int, now time.Time) {
	d.dropped += calls
	if d.dropped > 0 && now.Sub(d.droppedAt) >= time.Second {
		d.config.Logger.Printf("%d calls lost: %v", d.dropped, ErrDropped)
		d.dropped, d.droppedAt = 0, now
	}
}

func (d *dispatcher) end() {
	d.logDropped(0, d.droppedAt.Add(time.Hour)) // What is not logged yet.
	d.cancel()
	d.uploader.close()
	d.closeErr = d.backlog.store.close()
	if err := d.losses.err(); err != nil {
		d.closeErr = err
	}
	close(d.finished)
}

// flush waits until all that was accepted before is answered for.
func (d *dispatcher) flush(ctx context.Context) error {
	mark := d.backlog.flush()
	for {
		done, changed := d.backlog.answered(mark)
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-d.finished:
			// Closed meanwhile, and with a spool something may have been left for the next process.
			if done, _ := d.backlog.answered(mark); done {
				return nil
			}
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close ends the client. When ctx ends first, what is not sent is given up.
func (d *dispatcher) close(ctx context.Context) error {
	d.backlog.close()
	select {
	case <-d.finished:
	case <-ctx.Done():
		d.backlog.abort()
		d.cancel()
		<-d.finished
	}
	return d.closeErr
}

// encode makes the JSON of a call, checked and stamped.
func (d *dispatcher) encode(ctx context.Context, k kind, message interface{}, now time.Time) ([]byte, error) {
	e := newEncoder()
	defer e.release()
	if err := e.item.read(k, message); err != nil {
		return nil, err
	}
	if err := e.item.check(); err != nil {
		return nil, err
	}
	if err := e.item.stamp(now); err != nil {
		return nil, err
	}
	if d.config.FromContext != nil {
		e.item.addContext(d.config.FromContext(ctx))
	}
	return e.encode()
}
