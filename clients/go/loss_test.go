package analytics

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestCloseReturnsWhatWasLostSinceTheClientWasMade(t *testing.T) {
	for code, answer := range map[string]http.HandlerFunc{
		"refused": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"gave_up": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		receiver := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) { answer(w, r) })
		client := newClient(t, Config{Endpoint: receiver.URL, Retry: Retry{Tries: 2, First: time.Millisecond}})
		must(t, client.Track(Track{UserId: "u1", Event: "E"}))
		must(t, client.Flush(context.Background()))
		must(t, client.Track(Track{UserId: "u1", Event: "E"}))
		err := client.Close()
		loss, ok := err.(*LossError)
		if !ok || loss.Calls != 2 || loss.Unsent != 0 || Code(err) != code {
			t.Errorf("%s: Close returned %v with the code %q", code, err, Code(err))
		}
		var status *StatusError
		if !errors.As(err, &status) {
			t.Errorf("%s: %v does not say what the server answered", code, err)
		}
		if again := client.Close(); again != err {
			t.Errorf("%s: the second Close returned %v", code, again)
		}
	}
}

func TestCloseReturnsNothingWhenNothingWasLost(t *testing.T) {
	receiver := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	client := newClient(t, Config{Endpoint: receiver.URL})
	must(t, client.Track(Track{UserId: "u1", Event: "E"}))
	// A call that is not accepted is an error of that call.
	if err := client.Track(Track{UserId: "u1"}); Code(err) != "event_not_defined" {
		t.Errorf("the call returned %v", err)
	}
	must(t, client.Close())
}

func TestAServerThatCannotBeReachedIsCalledThat(t *testing.T) {
	text, ledger := &logged{}, newLedger()
	client := newClient(t, Config{
		Endpoint: "http://127.0.0.1:1", FlushAt: 1, Uploads: 1, Logger: text.logger(), OnFailure: ledger.failure, Retry: Retry{First: time.Hour, Longest: time.Hour},
	})
	for n := 0; n < 3; n++ {
		must(t, client.Track(Track{UserId: "u1", Event: "E"}))
	}
	for !strings.Contains(text.String(), "sending fails") {
		time.Sleep(time.Millisecond)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err := client.CloseContext(ended)
	if loss, ok := err.(*LossError); !ok || loss.Calls != 3 || loss.Unsent != 3 || Code(err) != "closed" {
		t.Errorf("CloseContext returned %v", err)
	}
	if !strings.Contains(err.Error(), "the server cannot be reached") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the error is %v", err)
	}
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	for id, err := range ledger.lost {
		if Code(err) != "unreachable" || !errors.Is(err, ErrUnsent) {
			t.Errorf("%s was reported as %v", id, err)
		}
	}
	if len(ledger.lost) != 3 {
		t.Errorf("%d calls were reported", len(ledger.lost))
	}
}
