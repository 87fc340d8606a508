package analytics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTheSmallerOfTheTwoSizesAndTheShorterOfTheTwoTimesCount(t *testing.T) {
	for _, c := range []struct {
		set   *Client
		at    int
		after time.Duration
	}{
		{&Client{}, 20, 5 * time.Second},
		{&Client{Size: 100, Interval: 30 * time.Second}, 100, 30 * time.Second},
		{&Client{FlushAt: 7, FlushAfter: time.Second}, 7, time.Second},
		{&Client{Size: 100, FlushAt: 7, Interval: time.Second, FlushAfter: time.Minute}, 7, time.Second},
		{&Client{Size: 1, FlushAt: 7}, 1, 5 * time.Second},
		{&Client{Size: -5, FlushAt: -7, Interval: -1}, 20, 5 * time.Second},
		{&Client{Size: 100000}, 2500, 5 * time.Second},
	} {
		got, err := c.set.options().normalize()
		must(t, err)
		if got.FlushAt != c.at || got.FlushAfter != c.after {
			t.Errorf("%d and %v, not %d and %v", got.FlushAt, got.FlushAfter, c.at, c.after)
		}
	}
}

func TestCallsAreSentWhenTheTimeIsOver(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := New("wk")
	client.Endpoint, client.FlushAfter = receiver.URL, 20*time.Millisecond
	defer client.Close()
	for n := 1; n <= 3; n++ {
		must(t, client.Track(Track{UserId: "u1", Event: "E"}))
		receiver.await(n)
	}
}

func TestTheTimerKeepsStepWithTheLastFlush(t *testing.T) {
	flushed := time.Now()
	for _, c := range []struct{ now, due time.Duration }{
		{0, 5}, {1, 5}, {4, 5}, {5, 10}, {7, 10}, {103, 105},
	} {
		due := nextDue(flushed, flushed.Add(c.now*time.Second), 5*time.Second)
		if due.Sub(flushed) != c.due*time.Second {
			t.Errorf("a call after %d s goes after %v", c.now, due.Sub(flushed))
		}
	}
}

func TestMethodsTakeAPointerAValueOrAMap(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := newClient(t, Config{Endpoint: receiver.URL})
	type message map[string]interface{}
	for _, accepted := range []interface{}{
		&Track{UserId: "u1", Event: "E"},
		Track{UserId: "u1", Event: "E"},
		map[string]interface{}{"userId": "u1", "event": "E"},
		map[string]string{"userId": "u1", "event": "E"},
		message{"userId": 7, "event": "E", "properties": map[string]int{"n": 1}},
	} {
		must(t, client.Track(accepted))
	}
	var noTrack *Track
	for _, refused := range []interface{}{
		nil, noTrack, map[string]interface{}(nil), message(nil), "E", 7, []string{"E"}, &Identify{UserId: "u1"}, struct{}{},
	} {
		if err := client.Track(refused); Code(err) != "not_an_object" {
			t.Errorf("%#v: %v", refused, err)
		}
	}
	must(t, client.Close())
	if sent := len(receiver.items()); sent != 5 {
		t.Errorf("%d calls were sent", sent)
	}
}

func TestEveryKindOfIntegerIsAnId(t *testing.T) {
	for _, id := range []interface{}{int8(7), int64(7), uint8(7), uint64(7), 7.0, float32(7)} {
		var item item
		must(t, item.read(kindTrack, map[string]interface{}{"userId": id, "event": "E"}))
		if item.UserId != "7" {
			t.Errorf("%T became %q", id, item.UserId)
		}
	}
	for _, id := range []interface{}{7.5, 1e300, []byte("7"), errors.New("7")} {
		if err := new(item).read(kindTrack, map[string]interface{}{"userId": id}); Code(err) != "id_not_string" {
			t.Errorf("%T: %v", id, err)
		}
	}
}

func TestAnIdThatIsNotUTF8IsRefusedAndNotChanged(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := newClient(t, Config{Endpoint: receiver.URL})
	for _, id := range []string{"M\xfcller", "half \xed\xa0\xbd", "\xff"} {
		for _, call := range []Call{
			Track{UserId: id, Event: "E"},
			Identify{AnonymousId: id},
			Group{UserId: "u1", GroupId: id},
			Alias{UserId: "u1", PreviousId: id},
		} {
			if err := client.Enqueue(context.Background(), call); Code(err) != "id_not_unicode" {
				t.Errorf("%#v: %v", call, err)
			}
		}
	}
	must(t, client.Track(Track{UserId: "mia-🦊\x00", Event: "E"}))
	must(t, client.Close())
	var got struct{ UserId string }
	must(t, json.Unmarshal(receiver.items()[0], &got))
	if got.UserId != "mia-🦊\x00" || len(receiver.items()) != 1 {
		t.Errorf("%q arrived", got.UserId)
	}
}

func TestWrongOptionsAreNamed(t *testing.T) {
	for field, config := range map[string]Config{
		"Endpoint":       {Endpoint: "ftp://example.com"},
		"FlushAt":        {FlushAt: 2501},
		"FlushAfter":     {FlushAfter: -1},
		"Timeout":        {Timeout: -1},
		"CloseTimeout":   {CloseTimeout: -1},
		"MaxCalls":       {MaxCalls: -1},
		"MaxBytes":       {MaxBytes: 100},
		"Uploads":        {Uploads: -1},
		"WhenFull":       {WhenFull: 9},
		"Retry.Tries":    {Retry: Retry{Tries: -1}},
		"Retry.First":    {Retry: Retry{First: time.Hour}},
		"Context":        {Context: map[string]interface{}{"f": func() {}}},
		"Spool.Dir":      {Spool: &Spool{}},
		"Spool.MaxBytes": {Spool: &Spool{Dir: t.TempDir(), MaxBytes: 1}},
	} {
		client, err := NewWithConfig("wk", config)
		wrong := &ConfigError{}
		if !errors.As(err, &wrong) || wrong.Field != field || Code(err) != "invalid_option" {
			t.Errorf("%s: the error is %v", field, err)
		}
		if err := client.Track(Track{UserId: "u1", Event: "E"}); !errors.As(err, &wrong) {
			t.Errorf("%s: a call of the client that came with it returned %v", field, err)
		}
		must(t, client.Close())
	}
	if _, err := NewWithConfig("", Config{}); Code(err) != "invalid_option" {
		t.Errorf("without a write key: %v", err)
	}
	client := New("wk")
	client.Endpoint = "localhost:8080"
	if err := client.Track(Track{UserId: "u1", Event: "E"}); Code(err) != "invalid_option" {
		t.Errorf("a call with a wrong endpoint returned %v", err)
	}
}

func TestDebugAnalyticsLogsAndTheWriteKeyIsNeverLogged(t *testing.T) {
	t.Setenv("DEBUG", "other, analytics")
	receiver := newReceiver(t, status(400))
	text := &logged{}
	client, err := NewWithConfig("wk_secret", Config{Endpoint: receiver.URL, Logger: text.logger()})
	must(t, err)
	must(t, client.Track(Track{UserId: "u_private", Event: "E"}))
	mustLose(t, client.Close(), 1)
	if got := text.String(); !strings.Contains(got, "sending 1 calls") || !strings.Contains(got, "response 400") {
		t.Errorf("the log is %q", got)
	}
	for _, secret := range []string{"wk_secret", "d2tfc2VjcmV0", "u_private"} {
		if strings.Contains(text.String(), secret) {
			t.Errorf("the log has %s in it: %s", secret, text)
		}
	}
	t.Setenv("DEBUG", "")
	quiet := &logged{}
	client, err = NewWithConfig("wk", Config{Endpoint: newReceiver(t, nil).URL, Logger: quiet.logger()})
	must(t, err)
	must(t, client.Track(Track{UserId: "u1", Event: "E"}))
	must(t, client.Close())
	if quiet.String() != "" {
		t.Errorf("without DEBUG the log is %q", quiet)
	}
}

func TestAnOutageIsLoggedOnceAndSoIsItsEnd(t *testing.T) {
	receiver := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 5 || n == 6 {
			w.WriteHeader(503)
		}
	})
	text := &logged{}
	client := newClient(t, Config{Endpoint: receiver.URL, Logger: text.logger()})
	for n := 0; n < 2; n++ { // The second outage comes too soon after the first to be told.
		must(t, client.Track(Track{UserId: "u1", Event: "E"}))
		must(t, client.Flush(context.Background()))
	}
	must(t, client.Close())
	if got := strings.Count(text.String(), "\n"); got != 2 {
		t.Errorf("the log is %q", text)
	}
}

func TestEveryCallIsReportedOnceBeforeFlushReturns(t *testing.T) {
	receiver := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%3 == 0 {
			w.WriteHeader(400)
		}
	})
	ledger := newLedger()
	client := newClient(t, Config{
		Endpoint: receiver.URL, FlushAt: 3, OnSuccess: ledger.success, OnFailure: ledger.failure,
	})
	var all sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		worker := worker
		all.Add(1)
		go func() {
			defer all.Done()
			for n := 0; n < 100; n++ {
				id := fmt.Sprintf("m%d-%d", worker, n)
				if err := client.Track(Track{Message: Message{MessageId: id}, UserId: "u1", Event: "E"}); err != nil {
					t.Error(err)
				}
			}
			if err := client.Flush(context.Background()); err != nil {
				t.Error(err)
			}
			ledger.mu.Lock()
			defer ledger.mu.Unlock()
			for n := 0; n < 100; n++ {
				id := fmt.Sprintf("m%d-%d", worker, n)
				_, delivered := ledger.delivered[id]
				if _, lost := ledger.lost[id]; delivered == lost {
					t.Errorf("%s: delivered %v, lost %v", id, delivered, lost)
				}
			}
		}()
	}
	all.Wait()
	if delivered, lost, reports := ledger.counts(); delivered+lost != 400 || reports != 400 || lost == 0 {
		t.Errorf("%d delivered and %d lost in %d reports", delivered, lost, reports)
	}
}

func TestAReportSaysWhichCallAndHowOften(t *testing.T) {
	receiver := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			w.WriteHeader(500)
		}
	})
	ledger := newLedger()
	client := newClient(t, Config{Endpoint: receiver.URL, OnSuccess: ledger.success})
	must(t, client.Group(Group{Message: Message{MessageId: "m1"}, UserId: "u1", GroupId: "g1"}))
	must(t, client.Close())
	got := ledger.delivered["m1"]
	if got.Type != "group" || got.Tries != 2 || !strings.Contains(string(got.Body), `"groupId":"g1"`) {
		t.Errorf("the report is %+v", got)
	}
}

func TestFlushAndCloseEndWithTheirContext(t *testing.T) {
	hold := make(chan struct{})
	receiver := newReceiver(t, func(int, http.ResponseWriter, *http.Request) { <-hold })
	defer close(hold)
	ledger := newLedger()
	client := newClient(t, Config{Endpoint: receiver.URL, OnFailure: ledger.failure})
	must(t, client.Track(Track{UserId: "u1", Event: "E"}))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		receiver.await(1)
		cancel()
	}()
	if err := client.Flush(ctx); !errors.Is(err, context.Canceled) || Code(err) != "canceled" {
		t.Errorf("Flush returned %v", err)
	}
	must(t, client.Track(Track{UserId: "u1", Event: "E"}))
	err := client.CloseContext(ctx)
	if loss, ok := err.(*LossError); !ok || loss.Calls != 2 || Code(err) != "closed" {
		t.Errorf("CloseContext returned %v", err)
	}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	for id, err := range ledger.lost {
		if err != ErrUnsent {
			t.Errorf("%s was reported as %v", id, err)
		}
	}
	if len(ledger.lost) != 2 {
		t.Errorf("%d calls were reported", len(ledger.lost))
	}
}

func TestAContextBelongsToEveryCallAndTheCallsOwnFieldsWin(t *testing.T) {
	receiver := newReceiver(t, nil)
	type key struct{}
	client := newClient(t, Config{
		Endpoint: receiver.URL,
		Context:  map[string]interface{}{"app": map[string]string{"name": "shop"}},
		FromContext: func(ctx context.Context) map[string]interface{} {
			trace := ctx.Value(key{})
			if trace == nil {
				return nil
			}
			return map[string]interface{}{"trace": trace, "ip": "192.0.2.9"}
		},
	})
	own := map[string]interface{}{"ip": "192.0.2.1"}
	traced := context.WithValue(context.Background(), key{}, "t1")
	must(t, client.Enqueue(traced, &Track{UserId: "u1", Event: "E", Context: own}))
	must(t, client.Track(&Track{UserId: "u1", Event: "E"}))
	must(t, client.Close())
	got := receiver.await(1)[0]
	if want := `{"app":{"name":"shop"},"library":{"name":"millrace-go","version":"2.0.0"}}`; string(got.body.Context) != want {
		t.Errorf("the batch has the context %s", got.body.Context)
	}
	if !strings.Contains(string(got.body.Batch[0]), `"context":{"ip":"192.0.2.1","trace":"t1"}`) {
		t.Errorf("the first call is %s", got.body.Batch[0])
	}
	if strings.Contains(string(got.body.Batch[1]), `"context"`) {
		t.Errorf("the second call is %s", got.body.Batch[1])
	}
	if len(own) != 1 {
		t.Errorf("the caller's context became %v", own)
	}
	var noTrack *Track
	for _, call := range []Call{nil, noTrack} {
		if err := client.Enqueue(traced, call); Code(err) != "not_an_object" {
			t.Errorf("%#v: %v", call, err)
		}
	}
}

func TestARedirectIsARefusalAndNotFollowed(t *testing.T) {
	other := newReceiver(t, nil)
	receiver := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	ledger := newLedger()
	client := newClient(t, Config{Endpoint: receiver.URL, OnFailure: ledger.failure})
	must(t, client.Track(Track{Message: Message{MessageId: "m1"}, UserId: "u1", Event: "E"}))
	mustLose(t, client.Close(), 1)
	if err := ledger.lost["m1"]; Code(err) != "refused" || !strings.Contains(err.Error(), other.URL) {
		t.Errorf("the call was reported as %v", err)
	}
	if len(other.requests()) != 0 {
		t.Error("the redirect was followed")
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	receiver := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
		}
	})
	client := newClient(t, Config{Endpoint: receiver.URL})
	started := time.Now()
	must(t, client.Track(Track{UserId: "u1", Event: "E"}))
	must(t, client.Close())
	if took := time.Since(started); took < time.Second {
		t.Errorf("it was tried again after %v", took)
	}
}

func TestSentAtIsFreshOnEveryTryAndTheRestIsNot(t *testing.T) {
	receiver := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			w.WriteHeader(503)
		}
	})
	client := newClient(t, Config{Endpoint: receiver.URL, Retry: Retry{First: 10 * time.Millisecond, Longest: time.Second}})
	must(t, client.Track(Track{UserId: "u1", Event: "E"}))
	must(t, client.Close())
	got := receiver.await(2)
	if got[0].body.SentAt >= got[1].body.SentAt {
		t.Errorf("sentAt is %s and then %s", got[0].body.SentAt, got[1].body.SentAt)
	}
	if string(got[0].body.Batch[0]) != string(got[1].body.Batch[0]) {
		t.Errorf("the call is %s and then %s", got[0].body.Batch[0], got[1].body.Batch[0])
	}
}

func TestAClientOfTheProgramSendsTheRequests(t *testing.T) {
	receiver := newReceiver(t, nil)
	used := 0
	client := New("wk")
	client.Endpoint = receiver.URL
	client.Client = http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		used++
		return http.DefaultTransport.RoundTrip(r)
	})}
	must(t, client.Track(Track{UserId: "u1", Event: "E"}))
	must(t, client.Close())
	if used != 1 || len(receiver.items()) != 1 {
		t.Errorf("its transport was used %d times", used)
	}
}

func TestTheLogOfAClientMadeByNewIsOnStderr(t *testing.T) {
	if New("wk").Logger.Writer() != io.Writer(os.Stderr) {
		t.Error("it is not")
	}
}
