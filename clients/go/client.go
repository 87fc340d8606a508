package analytics

import (
	"context"
	"log"
	"net/http"
	"sync"
	"time"
)

// Client accepts calls, keeps them, and sends them in batches in the background. Make one with New or NewWithConfig and close
// it in the end; its methods may be called from many goroutines at once.
//
// The fields are options for a client made by New, to be set before the first call and left alone after it. A client made by
// NewWithConfig has its options from there.
type Client struct {
	// Endpoint is the address of the server. Where it has no path, /v1/batch is appended.
	Endpoint string
	// Size and FlushAt are the number of calls that make a batch: the smaller of those that are set, else 20. With 1, each
	// call is sent at once, in a request of its own. More than 2,500 means 2,500.
	Size    int
	FlushAt int
	// Interval and FlushAfter are how long after the last flush the calls that wait are sent, however few: the shorter of
	// those that are set, else 5 seconds.
	Interval   time.Duration
	FlushAfter time.Duration
	// Logger gets a line for every loss. Default: stderr.
	Logger *log.Logger
	// Verbose logs what is sent as well.
	Verbose bool
	// Client sends the requests. Each try is bounded to 10 seconds whether it has a timeout or not.
	Client http.Client

	key    string
	config *Config // nil for a client made by New

	// The first call starts the client, and so does not see fields set after it.
	once       sync.Once
	dispatcher *dispatcher
	err        error
}

// New makes a client for the source with this write key. Its options are its fields. A wrong one is returned by every call.
func New(writeKey string) *Client {
	return &Client{Endpoint: Endpoint, Logger: newLogger(), key: writeKey}
}

// NewWithConfig makes a client with all options there are. It fails with a *ConfigError if one of them is wrong, and with a
// *SpoolError if the spool cannot be opened.
func NewWithConfig(writeKey string, config Config) (*Client, error) {
	c := &Client{key: writeKey, config: &config}
	_, err := c.started()
	return c, err
}

// started starts the client with the first call.
func (c *Client) started() (*dispatcher, error) {
	c.once.Do(func() { c.dispatcher, c.err = start(c.key, c.Client, c.options()) })
	return c.dispatcher, c.err
}

func (c *Client) options() Config {
	if c.config != nil {
		return *c.config
	}
	return Config{
		Endpoint:   c.Endpoint,
		FlushAt:    min(least(c.Size, c.FlushAt), mostCalls),
		FlushAfter: time.Duration(least(int64(c.Interval), int64(c.FlushAfter))),
		Logger:     c.Logger,
		Verbose:    c.Verbose,
	}
}

// least is the smaller positive number, or 0 if none is positive. Programs for version 2 could set a size of 0 or less, and
// mean by it no more than "I do not care".
func least[N int | int64](a, b N) N {
	if a <= 0 || (b > 0 && b < a) {
		a = b
	}
	if a < 0 {
		return 0
	}
	return a
}

// Identify ties a user to traits. It takes an Identify, a pointer to one, or a map with the keys of the wire ("userId",
// "traits", …).
//
// Like every call it returns an error if the call is not accepted: a *CallError if something is missing, too large or
// cannot be written as JSON, ErrFull, ErrClosed, a *SpoolError or, for a client made by New, a *ConfigError. An accepted call
// has been copied; message and what it holds may be changed as soon as the method returns, but not while it runs.
func (c *Client) Identify(message interface{}) error {
	return c.call(context.Background(), kindIdentify, message)
}

// Track records an action. It takes a Track, a pointer to one, or a map ("userId", "event", "properties", …).
func (c *Client) Track(message interface{}) error {
	return c.call(context.Background(), kindTrack, message)
}

// Page records a page view. It takes a Page, a pointer to one, or a map ("userId", "name", "traits" or "properties", …).
func (c *Client) Page(message interface{}) error {
	return c.call(context.Background(), kindPage, message)
}

// Screen records the view of a screen of an app. It takes a Screen, a pointer to one, or a map ("userId", "name", …).
func (c *Client) Screen(message interface{}) error {
	return c.call(context.Background(), kindScreen, message)
}

// Group ties a user to a group. It takes a Group, a pointer to one, or a map ("userId", "groupId", "traits", …).
func (c *Client) Group(message interface{}) error {
	return c.call(context.Background(), kindGroup, message)
}

// Alias says that two ids are one user. It takes an Alias, a pointer to one, or a map ("userId", "previousId").
func (c *Client) Alias(message interface{}) error {
	return c.call(context.Background(), kindAlias, message)
}

// Enqueue makes any of the calls, with types checked by the compiler and with a context: the call waits for room no longer
// than ctx allows, and Config.FromContext can take from it what belongs to the call, such as the id of a trace. Sending is not
// bound to ctx: an accepted call is sent even if ctx ends.
func (c *Client) Enqueue(ctx context.Context, call Call) error {
	if call == nil {
		return notAMessage("Enqueue", nil)
	}
	if isNil(call) {
		return notAMessage("Enqueue", call)
	}
	return c.call(ctx, call.kind(), call)
}

func (c *Client) call(ctx context.Context, k kind, message interface{}) error {
	d, err := c.started()
	if err != nil {
		return err
	}
	now := time.Now()
	body, err := d.encode(ctx, k, message, now)
	if err != nil {
		return err
	}
	return d.backlog.put(ctx, body, now)
}

// Flush sends what waits and returns when every call accepted before it is answered for: delivered or reported as lost. It
// returns early, with the context's error, if ctx ends first; the calls are then still on their way.
func (c *Client) Flush(ctx context.Context) error {
	d, err := c.started()
	if err != nil {
		return err
	}
	return d.flush(ctx)
}

// Close sends what waits, for 10 seconds at most (Config.CloseTimeout), and ends the client. What is not sent by then is
// reported as lost, or stays in the spool for the next client, which is no error. It returns a *LossError if accepted calls were lost,
// now or at any time since the client was made: unsent, refused by the server, given up or dropped.
// Calls after Close return ErrClosed; closing again does nothing and returns the same. Close waits for callbacks, also for one
// that takes longer.
func (c *Client) Close() error {
	limit := DefaultCloseTimeout
	if c.config != nil && c.config.CloseTimeout > 0 {
		limit = c.config.CloseTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return c.CloseContext(ctx)
}

// CloseContext is Close with the context as the bound. Without a deadline it waits until everything is answered for, however
// long that takes.
func (c *Client) CloseContext(ctx context.Context) error {
	c.once.Do(func() { c.err = ErrClosed }) // Never used: there is nothing to end.
	if c.dispatcher == nil {
		return nil
	}
	return c.dispatcher.close(ctx)
}
