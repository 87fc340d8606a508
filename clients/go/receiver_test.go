package analytics

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// received is one request as the server got it.
type received struct {
	method, target string
	header         http.Header
	size           int
	raw            []byte
	body           struct {
		Batch   []json.RawMessage `json:"batch"`
		Context json.RawMessage   `json:"context"`
		SentAt  string            `json:"sentAt"`
	}
}

// ids are the message ids of the batch.
func (r received) ids() []string {
	var ids []string
	for _, item := range r.body.Batch {
		ids = append(ids, newReport(item, 0).MessageId)
	}
	return ids
}

// receiver is a server that keeps what it gets and answers as told; 200 unless told otherwise.
type receiver struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	got     []received
	changed chan struct{}
	answer  func(n int, w http.ResponseWriter, r *http.Request)
}

// newReceiver starts a receiver. answer gets the number of the request, from 0; nil answers 200.
func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{t: t, changed: make(chan struct{}), answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Server.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	raw, err := io.ReadAll(request.Body)
	if err != nil {
		return // The client went away in the middle; it will try again.
	}
	got := received{method: request.Method, target: request.RequestURI, header: request.Header, size: len(raw), raw: raw}
	if err := json.Unmarshal(raw, &got.body); err != nil {
		r.t.Errorf("the body of a request is no JSON: %v", err)
	}
	r.mu.Lock()
	n := len(r.got)
	r.got = append(r.got, got)
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	if r.answer != nil {
		r.answer(n, w, request)
		return
	}
	io.WriteString(w, `{"success":true}`)
}

func (r *receiver) requests() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

// await waits until there were n requests.
func (r *receiver) await(n int) []received {
	r.t.Helper()
	limit := time.After(4 * time.Minute)
	for {
		r.mu.Lock()
		got, changed := r.got, r.changed
		r.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-changed:
		case <-limit:
			r.t.Fatalf("%d requests came, not %d", len(got), n)
		}
	}
}

// items are all items of all requests, in the order they came.
func (r *receiver) items() []json.RawMessage {
	var items []json.RawMessage
	for _, request := range r.requests() {
		items = append(items, request.body.Batch...)
	}
	return items
}

// status answers every request with one status.
func status(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// ledger keeps what the callbacks were told.
type ledger struct {
	mu        sync.Mutex
	delivered map[string]Report
	lost      map[string]error
	reports   int
}

func newLedger() *ledger {
	return &ledger{delivered: map[string]Report{}, lost: map[string]error{}}
}

func (l *ledger) success(r Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports++
	l.delivered[r.MessageId] = r
}

func (l *ledger) failure(r Report, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports++
	l.lost[r.MessageId] = err
}

func (l *ledger) counts() (delivered, lost, reports int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.delivered), len(l.lost), l.reports
}

// logged is a log whose text a test can read.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *log.Logger { return log.New(l, "", 0) }

var quick = Retry{Tries: 10, First: time.Millisecond, Longest: 4 * time.Millisecond}

// mustLose fails unless closing the client says that so many calls were lost.
func mustLose(t *testing.T, err error, calls int) {
	t.Helper()
	if loss, ok := err.(*LossError); !ok || loss.Calls != calls {
		t.Errorf("Close returned %v, not that %d calls were lost", err, calls)
	}
}

// newClient makes a client that is closed when the test ends. Waits are short, unless the test sets them.
func newClient(t *testing.T, config Config) *Client {
	t.Helper()
	if config.Logger == nil {
		config.Logger = log.New(io.Discard, "", 0)
	}
	if config.Retry == (Retry{}) {
		config.Retry = quick
	}
	client, err := NewWithConfig("wk", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
