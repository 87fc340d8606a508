package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Every known fault of the historical version 2 (2.0.0, 2.1.0, 2.1.1), each as the behaviour that replaces it. Clients are made
// by New, as programs for that version make them.

func historical(t *testing.T, endpoint string) *Client {
	client := New("wk")
	client.Endpoint = endpoint
	client.Logger.SetOutput(io.Discard)
	t.Cleanup(func() { client.Close() })
	return client
}

// 2.0.0 lost what was queued when it was closed.
func TestHistory01CloseSendsEverythingThatWaits(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := historical(t, receiver.URL)
	for n := 0; n < 25; n++ {
		must(t, client.Track(&Track{UserId: "u1", Event: fmt.Sprint("E", n)}))
	}
	must(t, client.Close())
	if sent := len(receiver.items()); sent != 25 {
		t.Errorf("%d of 25 calls were sent", sent)
	}
}

// 2.1.0 hung for ever.
func TestHistory02CloseOfAnUnusedClientReturns(t *testing.T) {
	must(t, New("wk").Close())
}

// All of them panicked: send on closed channel.
func TestHistory03CallsAfterCloseReturnAnError(t *testing.T) {
	client := historical(t, newReceiver(t, nil).URL)
	must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
	must(t, client.Close())
	unused := New("wk")
	must(t, unused.Close())
	for _, client := range []*Client{client, unused} {
		if err := client.Track(&Track{UserId: "u1", Event: "E"}); err != ErrClosed {
			t.Errorf("a call after Close returned %v", err)
		}
	}
}

// All of them hung.
func TestHistory04ASecondCloseReturnsWhatTheFirstDid(t *testing.T) {
	client := historical(t, "http://127.0.0.1:1")
	must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	first := client.CloseContext(ended)
	if loss, ok := first.(*LossError); !ok || loss.Calls != 1 {
		t.Errorf("the first Close returned %v", first)
	}
	var all sync.WaitGroup
	for n := 0; n < 4; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if again := client.Close(); again != first {
				t.Errorf("Close returned %v and then %v", first, again)
			}
		}()
	}
	all.Wait()
}

// 2.1.1 sent the same messageId and timestamp twice, and the second call was taken for a duplicate.
func TestHistory05AStructUsedTwiceIsTwoCalls(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := historical(t, receiver.URL)
	track := Track{UserId: "u1", Event: "E", Properties: map[string]interface{}{"n": 1}}
	before := track
	must(t, client.Track(&track))
	if !reflect.DeepEqual(track, before) {
		t.Errorf("the caller's value became %+v", track)
	}
	track.Properties["n"] = 2
	must(t, client.Track(&track))
	must(t, client.Close())
	items := receiver.items()
	var seen []map[string]interface{}
	for _, text := range items {
		var item map[string]interface{}
		must(t, json.Unmarshal(text, &item))
		seen = append(seen, item)
	}
	if len(seen) != 2 || seen[0]["messageId"] == seen[1]["messageId"] {
		t.Errorf("the items are %v", seen)
	}
	if n := seen[0]["properties"].(map[string]interface{})["n"]; n != 1.0 {
		t.Errorf("a change after the call reached the call: n is %v", n)
	}
}

// 2.1.1 blocked for 42.7 s when the server was down.
func TestHistory06CloseIsBoundedWhenTheServerIsDown(t *testing.T) {
	down, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var tries atomic.Int32
	go func() {
		for {
			connection, err := down.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			connection.Close()
		}
	}()
	defer down.Close()
	ledger := newLedger()
	client := newClient(t, Config{
		Endpoint: "http://" + down.Addr().String(), CloseTimeout: 50 * time.Millisecond, OnFailure: ledger.failure,
		Retry: Retry{Tries: 1000, First: 250 * time.Millisecond, Longest: 250 * time.Millisecond},
	})
	must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
	err = client.Close()
	if loss, ok := err.(*LossError); !ok || loss.Calls != 1 {
		t.Errorf("Close returned %v", err)
	}
	// Within the ten seconds of a client that is told nothing there are forty.
	if n := tries.Load(); n > 10 {
		t.Errorf("Close waited for %d tries", n)
	}
	if _, lost, _ := ledger.counts(); lost != 1 {
		t.Errorf("%d calls were reported", lost)
	}
	if DefaultCloseTimeout != 10*time.Second {
		t.Errorf("the bound is %v unless set", DefaultCloseTimeout)
	}
}

// All of them lost the whole batch.
func TestHistory07AValueJSONCannotHoldFailsItsCallAlone(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := historical(t, receiver.URL)
	must(t, client.Track(&Track{UserId: "u1", Event: "before"}))
	for _, value := range []interface{}{math.NaN(), func() {}, make(chan int), panics{}} {
		err := client.Track(&Track{UserId: "u1", Event: "E", Properties: map[string]interface{}{"v": value}})
		if Code(err) != "unencodable" {
			t.Errorf("%T: the error is %v", value, err)
		}
	}
	must(t, client.Track(&Track{UserId: "u1", Event: "after"}))
	must(t, client.Close())
	if sent := len(receiver.items()); sent != 2 {
		t.Errorf("%d calls were sent, not the 2 around it", sent)
	}
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("not today") }

// All of them built batches of any size, and then sent them ten times for a 400.
func TestHistory08NoBatchIsLargerThanTheLimit(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := historical(t, receiver.URL)
	client.Size = 250
	long := strings.Repeat("x", 30000)
	for n := 0; n < 40; n++ {
		must(t, client.Track(&Track{UserId: "u1", Event: "E", Properties: map[string]interface{}{"long": long}}))
	}
	if err := client.Track(&Track{UserId: "u1", Event: long + long}); Code(err) != "message_too_large" {
		t.Errorf("a call of 60 KB returned %v", err)
	}
	must(t, client.Close())
	for _, request := range receiver.requests() {
		if request.size > 500*1024 {
			t.Errorf("a request has %d bytes", request.size)
		}
	}
	if sent := len(receiver.items()); sent != 40 {
		t.Errorf("%d of 40 calls were sent", sent)
	}
}

// All of them never flushed by size.
func TestHistory09ASizeOfZeroOrLessIsTheDefault(t *testing.T) {
	for _, size := range []int{0, -1} {
		receiver := newReceiver(t, nil)
		client := historical(t, receiver.URL)
		client.Size, client.Interval = size, time.Hour
		for n := 0; n < 20; n++ {
			must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
		}
		receiver.await(1)
		must(t, client.Close())
	}
}

// All of them waited for an answer for ever, because http.DefaultClient has no timeout.
func TestHistory10AServerThatNeverAnswersIsGivenUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	ledger := newLedger()
	retry := quick
	retry.Tries = 2
	client := newClient(t, Config{
		Endpoint: "http://" + silent.Addr().String(), Timeout: 30 * time.Millisecond, Retry: retry, OnFailure: ledger.failure,
	})
	must(t, client.Track(&Track{Message: Message{MessageId: "m1"}, UserId: "u1", Event: "E"}))
	must(t, client.Flush(context.Background()))
	if err := ledger.lost["m1"]; Code(err) != "gave_up" {
		t.Errorf("the call was reported as %v", err)
	}
	options, err := New("wk").options().normalize()
	must(t, err)
	if options.Timeout != 10*time.Second {
		t.Errorf("the bound of a try is %v unless set", options.Timeout)
	}
}

// All of them wrote a Content-Length of one strange character, and go vet refused the package.
func TestHistory11TheLengthOfTheBodyIsItsLength(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := historical(t, receiver.URL)
	must(t, client.Track(&Track{UserId: "u1", Event: "Größe"}))
	must(t, client.Close())
	got := receiver.await(1)[0]
	if length := got.header.Get("Content-Length"); length != strconv.Itoa(got.size) {
		t.Errorf("the header is %q, the body has %d bytes", length, got.size)
	}
}

// None of them told the caller what went wrong (issue 21 of its repository).
func TestHistory12LossesAreReportedToTheCaller(t *testing.T) {
	receiver := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(401)
		io.WriteString(w, `{"success":false,"code":"invalid_write_key","message":"The write key is unknown."}`)
	})
	ledger := newLedger()
	client := newClient(t, Config{Endpoint: receiver.URL, OnFailure: ledger.failure})
	must(t, client.Track(&Track{Message: Message{MessageId: "m1"}, UserId: "u1", Event: "E"}))
	mustLose(t, client.Close(), 1)
	refused, ok := ledger.lost["m1"].(*StatusError)
	if !ok || refused.Status != 401 || refused.ServerCode != "invalid_write_key" {
		t.Errorf("the call was reported as %v", ledger.lost["m1"])
	}
	if requests := len(receiver.requests()); requests != 1 {
		t.Errorf("a refused batch was sent %d times", requests)
	}
}

// None of them had it (issues 7 and 142).
func TestHistory13FlushReturnsWhenEverythingIsAnsweredFor(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := historical(t, receiver.URL)
	must(t, client.Flush(context.Background()))
	must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
	must(t, client.Flush(context.Background()))
	if sent := len(receiver.items()); sent != 1 {
		t.Errorf("%d calls were sent when Flush returned", sent)
	}
}

// 2.0.0 tried nothing again, 2.1.0 only what had no answer.
func TestHistory14FailuresThatMayPassAreTriedAgainWithTheSameIds(t *testing.T) {
	receiver := newReceiver(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 0:
			connection, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				connection.Close()
			}
		case 1:
			w.WriteHeader(503)
		}
	})
	client := newClient(t, Config{Endpoint: receiver.URL})
	must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
	must(t, client.Close())
	got := receiver.await(3)
	if len(got) != 3 || got[0].ids()[0] != got[1].ids()[0] || got[1].ids()[0] != got[2].ids()[0] {
		t.Errorf("%d requests with ids that differ", len(got))
	}
	if count := got[2].header.Get("X-Retry-Count"); count != "2" {
		t.Errorf("the third try says it is number %q", count)
	}
}

// 2.1.1 sent a batch that was refused ten times.
func TestHistory15ABadRequestIsNotTriedAgain(t *testing.T) {
	receiver := newReceiver(t, status(400))
	client := newClient(t, Config{Endpoint: receiver.URL})
	must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
	mustLose(t, client.Close(), 1)
	if requests := len(receiver.requests()); requests != 1 {
		t.Errorf("it was sent %d times", requests)
	}
}

// 2.1.0 sent in its only loop: while one batch was tried again, nothing else moved and calls blocked.
func TestHistory16ABatchThatFailsDoesNotHoldUpOthers(t *testing.T) {
	receiver := newReceiver(t, nil)
	receiver.answer = func(n int, w http.ResponseWriter, r *http.Request) {
		for _, id := range receiver.requests()[n].ids() {
			if id == "bad" {
				w.WriteHeader(503)
			}
		}
	}
	ledger := newLedger()
	client := newClient(t, Config{
		Endpoint: receiver.URL, FlushAt: 1, OnSuccess: ledger.success, CloseTimeout: time.Millisecond,
		Retry: Retry{First: time.Hour, Longest: time.Hour},
	})
	must(t, client.Track(&Track{Message: Message{MessageId: "bad"}, UserId: "u1", Event: "E"}))
	for n := 0; n < 100; n++ {
		must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
	}
	receiver.await(101)
}

// All of them wrote local time in whole seconds. TestMain moves this process to a zone that is not UTC.
func TestHistory17TimesAreInUTCWithMilliseconds(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := historical(t, receiver.URL)
	before := time.Now().UTC().Truncate(time.Millisecond)
	must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
	must(t, client.Close())
	got := receiver.await(1)[0]
	var item struct{ Timestamp string }
	must(t, json.Unmarshal(got.body.Batch[0], &item))
	for _, text := range []string{item.Timestamp, got.body.SentAt} {
		at, err := time.Parse(timeLayout, text)
		if err != nil || at.Before(before) || at.After(time.Now()) {
			t.Errorf("the time is %s", text)
		}
	}
}
