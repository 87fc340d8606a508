package analytics

import (
	"context"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Defaults of the options.
const (
	DefaultFlushAt      = 20
	DefaultFlushAfter   = 5 * time.Second
	DefaultTimeout      = 10 * time.Second
	DefaultCloseTimeout = 10 * time.Second
	DefaultMaxCalls     = 10000
	DefaultMaxBytes     = 32 << 20
	DefaultUploads      = 8
)

const (
	// mostCalls in a batch; the server refuses more.
	mostCalls = 2500
	// largestBatch in bytes of the whole request body: 500 KB (spec/specification.md, "Batches of a client").
	largestBatch = 500 * 1024
)

// WhenFull says what a call does when there is no room for it.
type WhenFull int

const (
	// WhenFullDefault is Block without a spool and DropOldest with one.
	WhenFullDefault WhenFull = iota
	// Block lets the call wait for room, as long as its context allows.
	Block
	// DropOldest pushes out the calls that wait longest; each is reported with ErrDropped. Calls on their way to the server
	// are not pushed out: when there is nothing else, the new call gets ErrFull.
	DropOldest
	// Refuse returns ErrFull.
	Refuse
)

// Config holds the options of NewWithConfig. The zero value of each is its default.
type Config struct {
	// Endpoint is the address of the server. Where it has no path, /v1/batch is appended. Default: Endpoint.
	Endpoint string

	// FlushAt is how many calls make a batch, 1 to 2,500. With 1, each call is a request of its own. Default: 20.
	FlushAt int

	// FlushAfter is how long after the last flush the calls that wait are sent, however few. Default: 5 seconds.
	FlushAfter time.Duration

	// Timeout bounds one try, from connecting to the end of the answer. Default: 10 seconds.
	Timeout time.Duration

	// CloseTimeout bounds Close. Default: 10 seconds.
	CloseTimeout time.Duration

	// Retry says how often and when a batch is tried again.
	Retry Retry

	// MaxCalls and MaxBytes bound the calls kept in memory, those on their way included; bytes are those of their JSON, at
	// most 2 GB. With a spool, its MaxBytes takes their place. Default: 10,000 calls and 32 MB.
	MaxCalls int
	MaxBytes int

	// WhenFull says what a call does when there is no room for it.
	WhenFull WhenFull

	// Uploads is how many requests may be under way at once. Default: 8.
	Uploads int

	// Transport sends the requests. It must keep to the context of a request. Default: one like http.DefaultTransport.
	Transport http.RoundTripper

	// Logger gets a line for every loss and for every change between working and failing. Default: stderr.
	Logger *log.Logger

	// Verbose logs what is sent as well. So does the environment variable DEBUG with the value analytics.
	Verbose bool

	// Context becomes part of the context of every call; fields of the call's own context win.
	Context map[string]interface{}

	// FromContext makes fields of the call's context from the context.Context given to Enqueue, such as the id of a trace.
	// It runs in the calling goroutine. Fields of the call's own context win.
	FromContext func(context.Context) map[string]interface{}

	// OnSuccess and OnFailure are called once for each accepted call, with its result, before a Flush or Close that
	// waits for it returns. They run on goroutines of the client, several at a time: a slow one slows sending, and one that
	// waits for Flush, for Close or for room never ends.
	OnSuccess func(Report)
	OnFailure func(Report, error)

	// Spool keeps accepted calls on disk until they are answered for, or is nil to keep them in memory.
	Spool *Spool
}

// Spool is a folder that keeps accepted calls, so that they survive the end of the process however it comes and outages
// of any length. Retryable failures are then tried for ever. The next client with the same folder sends the rest.
//
// One client at a time can use a folder. Its calls go out with the write key of the client that sends them: give every
// write key a folder of its own.
type Spool struct {
	// Dir is made if it does not exist.
	Dir string
	// MaxBytes bounds the folder, at least 1 MB. Default: 256 MB. When it is full and the policy is DropOldest, the oldest
	// sixteenth (4 MB at most) is dropped at once.
	MaxBytes int64
	// Sync makes every call wait until the disk has it, so that it survives a power failure too. Without it calls survive the
	// death of the process, but not of the machine.
	Sync bool
}

// DefaultSpoolBytes is the default of Spool.MaxBytes.
const DefaultSpoolBytes = 256 << 20

const leastSpoolBytes = 1 << 20

// normalize fills in the defaults, or says what is wrong as a *ConfigError.
func (c Config) normalize() (Config, error) {
	if c.Endpoint == "" {
		c.Endpoint = Endpoint
	}
	target, err := url.Parse(c.Endpoint)
	if err != nil {
		return c, &ConfigError{"Endpoint", "is not a URL: " + err.Error()}
	}
	if (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" {
		return c, &ConfigError{"Endpoint", fmt.Sprintf("must be a full URL with http or https, not %q", c.Endpoint)}
	}
	if target.Path == "" || target.Path == "/" {
		target.Path = "/v1/batch"
	}
	target.Fragment = ""
	c.Endpoint = target.String()
	if err := c.normalizeNumbers(); err != nil {
		return c, err
	}
	if c.Retry, err = c.Retry.normalize(); err != nil {
		return c, err
	}
	if c.Spool, err = c.Spool.normalize(); err != nil {
		return c, err
	}
	if c.WhenFull < WhenFullDefault || c.WhenFull > Refuse {
		return c, &ConfigError{"WhenFull", "must be Block, DropOldest or Refuse"}
	}
	if c.WhenFull == WhenFullDefault {
		c.WhenFull = Block
		if c.Spool != nil {
			c.WhenFull = DropOldest
		}
	}
	if c.Logger == nil {
		c.Logger = newLogger()
	}
	c.Verbose = c.Verbose || debugged(os.Getenv("DEBUG"))
	return c, nil
}

func (c *Config) normalizeNumbers() error {
	for _, err := range []error{
		within("FlushAt", &c.FlushAt, DefaultFlushAt, 1, mostCalls),
		within("MaxCalls", &c.MaxCalls, DefaultMaxCalls, 1, math.MaxInt32),
		within("MaxBytes", &c.MaxBytes, DefaultMaxBytes, largestCall, math.MaxInt32),
		within("Uploads", &c.Uploads, DefaultUploads, 1, 1000),
		notNegative("FlushAfter", &c.FlushAfter, DefaultFlushAfter),
		notNegative("Timeout", &c.Timeout, DefaultTimeout),
		notNegative("CloseTimeout", &c.CloseTimeout, DefaultCloseTimeout),
	} {
		if err != nil {
			return err
		}
	}
	c.FlushAt = min(c.FlushAt, c.MaxCalls) // More would never wait at once.
	return nil
}

func within(name string, value *int, preset, least, most int) error {
	if *value == 0 {
		*value = preset
	}
	if *value < least || *value > most {
		return &ConfigError{name, fmt.Sprintf("must be %d to %d, not %d", least, most, *value)}
	}
	return nil
}

func notNegative(name string, value *time.Duration, preset time.Duration) error {
	if *value == 0 {
		*value = preset
	}
	if *value < 0 {
		return &ConfigError{name, "must not be negative"}
	}
	return nil
}

// normalize returns a copy, because the caller's value stays as it is.
func (s *Spool) normalize() (*Spool, error) {
	if s == nil {
		return nil, nil
	}
	spool := *s
	if spool.MaxBytes == 0 {
		spool.MaxBytes = DefaultSpoolBytes
	}
	if spool.Dir == "" {
		return nil, &ConfigError{"Spool.Dir", "is missing"}
	}
	if spool.MaxBytes < leastSpoolBytes {
		return nil, &ConfigError{"Spool.MaxBytes", fmt.Sprintf("must be at least %d", leastSpoolBytes)}
	}
	return &spool, nil
}

func newLogger() *log.Logger {
	return log.New(os.Stderr, "analytics ", log.LstdFlags)
}

// debugged reads the environment variable DEBUG: analytics, alone or in a list (spec/specification.md, "Client options").
func debugged(value string) bool {
	for _, name := range strings.Split(value, ",") {
		if strings.TrimSpace(name) == "analytics" {
			return true
		}
	}
	return false
}
