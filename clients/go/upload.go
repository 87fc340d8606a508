package analytics

import (
	"context"
	"io"
	"log"
	"net/http"
	"time"
)

// uploader sends batches until they are answered for.
type uploader struct {
	envelope *envelope
	client   http.Client
	// own is the transport, if the client made it: its connections are closed in the end.
	own     *http.Transport
	timeout time.Duration
	retry   Retry
	forever bool
	dice    *dice
	log     *log.Logger
	verbose bool
	outage  outage
}

func newUploader(e *envelope, client http.Client, c Config) *uploader {
	u := &uploader{
		envelope: e,
		client:   client,
		timeout:  c.Timeout,
		retry:    c.Retry,
		forever:  c.Spool != nil,
		dice:     newDice(time.Now()),
		log:      c.Logger,
		verbose:  c.Verbose,
		outage:   outage{log: c.Logger},
	}
	if c.Transport != nil {
		u.client.Transport = c.Transport
	}
	if u.client.Transport == nil {
		if preset, ok := http.DefaultTransport.(*http.Transport); ok {
			u.own = preset.Clone()
			// With the default of 2, every further upload would make, and throw away, a connection of its own.
			u.own.MaxIdleConnsPerHost = c.Uploads
			u.client.Transport = u.own
		}
	}
	if u.client.CheckRedirect == nil {
		// Followed, a redirected POST can become a GET that answers 200: the batch would be lost without a word.
		u.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return u
}

// upload sends a batch until it is delivered (nil), refused, given up, or ctx ends (ErrUnsent). It returns the number of tries.
func (u *uploader) upload(ctx context.Context, bodies [][]byte) (int, error) {
	for tries := 1; ; tries++ {
		result, after, err := u.try(ctx, bodies, tries-1)
		if ctx.Err() != nil && result == retryable {
			return tries, ErrUnsent
		}
		switch {
		case result == delivered:
			u.outage.succeeded()
			return tries, nil
		case result == refused:
			u.outage.refused()
			return tries, err
		case tries >= u.retry.Tries && !u.forever:
			return tries, &GaveUpError{Tries: tries, Err: err}
		}
		u.outage.failed(err, time.Now())
		wait := u.retry.wait(tries, after, u.dice.draw())
		u.logf("try %d failed, next in %v: %v", tries, wait.Round(time.Millisecond), err)
		if !sleep(ctx, wait) {
			return tries, ErrUnsent
		}
	}
}

// try sends one request. after is what the server asks to wait, or 0.
func (u *uploader) try(ctx context.Context, bodies [][]byte, tries int) (result outcome, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	now := time.Now()
	request, err := u.envelope.request(ctx, bodies, tries, now)
	if err != nil {
		return refused, 0, err
	}
	response, err := u.client.Do(request)
	if err != nil {
		return retryable, 0, err
	}
	defer response.Body.Close()
	result = outcomeOf(response.StatusCode)
	if result != delivered {
		err = refusal(response)
		after = retryAfter(response.Header.Get("Retry-After"), now)
	}
	// A connection is used again only if its answer was read to the end.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, largestAnswer))
	u.logf("response %s", response.Status)
	return result, after, err
}

func (u *uploader) logf(format string, args ...interface{}) {
	if u.verbose {
		u.log.Printf(format, args...)
	}
}

func (u *uploader) close() {
	if u.own != nil {
		u.own.CloseIdleConnections()
	}
}

// sleep waits, and says false if ctx ended first.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
