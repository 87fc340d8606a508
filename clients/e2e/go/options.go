package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/millrace/millrace/clients/go/v2"
)

// options is the first line of stdin.
type options struct {
	WriteKey       string  `json:"writeKey"`
	Endpoint       string  `json:"endpoint"`
	FlushAt        int     `json:"flushAt"`
	FlushAfterMs   int64   `json:"flushAfterMs"`
	TimeoutMs      int64   `json:"timeoutMs"`
	CloseTimeoutMs int64   `json:"closeTimeoutMs"`
	MaxCalls       int     `json:"maxCalls"`
	MaxBytes       int     `json:"maxBytes"`
	WhenFull       string  `json:"whenFull"`
	Uploads        int     `json:"uploads"`
	Spool          *spool  `json:"spool"`
	Ca             string  `json:"ca"`
	WaitScale      float64 `json:"waitScale"`
	Verbose        bool    `json:"verbose"`
}

type spool struct {
	Dir      string `json:"dir"`
	MaxBytes int64  `json:"maxBytes"`
}

// open makes the client the first line asks for. Callbacks write to out.
func open(line []byte, out *lines) (*analytics.Client, error) {
	given := options{WaitScale: 1}
	if err := decode(line, &given); err != nil {
		return nil, err
	}
	whenFull, ok := map[string]analytics.WhenFull{
		"": analytics.WhenFullDefault, "block": analytics.Block,
		"drop-oldest": analytics.DropOldest, "refuse": analytics.Refuse,
	}[given.WhenFull]
	if !ok {
		return nil, fmt.Errorf("whenFull is %q", given.WhenFull)
	}
	transport, err := newTransport(given)
	if err != nil {
		return nil, err
	}
	config := analytics.Config{
		Endpoint:     given.Endpoint,
		FlushAt:      given.FlushAt,
		FlushAfter:   milliseconds(given.FlushAfterMs),
		Timeout:      milliseconds(given.TimeoutMs),
		CloseTimeout: milliseconds(given.CloseTimeoutMs),
		MaxCalls:     given.MaxCalls,
		MaxBytes:     given.MaxBytes,
		WhenFull:     whenFull,
		Uploads:      given.Uploads,
		Transport:    transport,
		Verbose:      given.Verbose,
		OnSuccess:    out.success,
		OnFailure:    out.failure,
		Retry: analytics.Retry{
			First:   time.Duration(given.WaitScale * float64(500*time.Millisecond)),
			Longest: time.Duration(given.WaitScale * float64(60*time.Second)),
		},
	}
	if given.Spool != nil {
		config.Spool = &analytics.Spool{Dir: given.Spool.Dir, MaxBytes: given.Spool.MaxBytes}
	}
	return analytics.NewWithConfig(given.WriteKey, config)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// newTransport trusts one more authority, and shortens what a server asks to wait.
func newTransport(given options) (http.RoundTripper, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	if given.Ca != "" {
		text, err := os.ReadFile(given.Ca)
		if err != nil {
			return nil, err
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			return nil, err
		}
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", given.Ca)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return scaled{transport: transport, scale: given.WaitScale}, nil
}

type scaled struct {
	transport http.RoundTripper
	scale     float64
}

func (s scaled) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if seconds, err := strconv.ParseFloat(response.Header.Get("Retry-After"), 64); err == nil {
		response.Header.Set("Retry-After", strconv.Itoa(int(math.Ceil(seconds*s.scale))))
	}
	return response, nil
}
