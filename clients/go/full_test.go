package analytics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// held is a server that gives no answer until it is released.
func held(t *testing.T) (receiver *receiver, letGo func()) {
	hold := make(chan struct{})
	var once sync.Once
	letGo = func() { once.Do(func() { close(hold) }) }
	receiver = newReceiver(t, func(int, http.ResponseWriter, *http.Request) { <-hold })
	t.Cleanup(letGo) // Before the server is closed, which waits for its answers.
	return receiver, letGo
}

func track(id string) Track {
	return Track{Message: Message{MessageId: id}, UserId: "u1", Event: "E"}
}

func TestWhenFullACallWaitsForRoom(t *testing.T) {
	receiver, letGo := held(t)
	client := newClient(t, Config{Endpoint: receiver.URL, FlushAt: 1, MaxCalls: 2})
	must(t, client.Track(track("m1")))
	must(t, client.Track(track("m2")))
	// Both are under way, and what is under way counts.
	receiver.await(2)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := client.Enqueue(ctx, track("m3")); !errors.Is(err, context.DeadlineExceeded) || Code(err) != "canceled" {
		t.Errorf("a call with a context returned %v", err)
	}
	waits := make(chan error)
	go func() { waits <- client.Track(track("m4")) }()
	letGo()
	must(t, <-waits)
	must(t, client.Close())
	if sent := len(receiver.items()); sent != 3 {
		t.Errorf("%d calls were sent", sent)
	}
}

func TestACallThatWaitsForRoomHearsOfClose(t *testing.T) {
	receiver, letGo := held(t)
	client := newClient(t, Config{Endpoint: receiver.URL, FlushAt: 1, MaxCalls: 1})
	must(t, client.Track(track("m1")))
	waits := make(chan error)
	go func() { waits <- client.Track(track("m2")) }()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		if err := <-waits; err != ErrClosed {
			t.Errorf("the call returned %v", err)
		}
		cancel()
	}()
	defer letGo()
	if _, ok := client.CloseContext(ctx).(*LossError); !ok {
		t.Error("the call under way was not counted as unsent")
	}
}

func TestWhenFullACallIsRefused(t *testing.T) {
	receiver, _ := held(t)
	ledger := newLedger()
	client := newClient(t, Config{
		Endpoint: receiver.URL, MaxCalls: 3, FlushAt: 3, WhenFull: Refuse, CloseTimeout: time.Millisecond, OnFailure: ledger.failure,
	})
	for n := 0; n < 3; n++ {
		must(t, client.Track(track(fmt.Sprint("m", n))))
	}
	if err := client.Track(track("m3")); err != ErrFull || Code(err) != "full" {
		t.Errorf("the call returned %v", err)
	}
	client.Close()
	if _, lost, _ := ledger.counts(); lost != 3 {
		t.Errorf("%d calls were reported", lost)
	}
}

func TestWhenFullTheOldestWaitingCallsAreDroppedAndReported(t *testing.T) {
	receiver, letGo := held(t)
	ledger := newLedger()
	client := newClient(t, Config{
		Endpoint: receiver.URL, FlushAt: 2, Uploads: 1, MaxCalls: 5, WhenFull: DropOldest,
		OnSuccess: ledger.success, OnFailure: ledger.failure,
	})
	for n := 0; n < 2; n++ {
		must(t, client.Track(track(fmt.Sprint("m", n))))
	}
	receiver.await(1)
	for n := 2; n < 10; n++ {
		must(t, client.Track(track(fmt.Sprint("m", n))))
	}
	letGo()
	must(t, client.Flush(context.Background()))
	for n := 0; n < 10; n++ {
		id := fmt.Sprint("m", n)
		// Two were under way, three waited in the end; those between were pushed out.
		if want := n >= 2 && n < 7; want != (ledger.lost[id] == ErrDropped) {
			t.Errorf("%s was reported as %v", id, ledger.lost[id])
		}
	}
	if delivered, lost, reports := ledger.counts(); delivered != 5 || lost != 5 || reports != 10 {
		t.Errorf("%d delivered, %d lost, %d reports", delivered, lost, reports)
	}
}

func TestTheBoundHoldsHoweverManyCallsAreDropped(t *testing.T) {
	receiver, _ := held(t)
	text, ledger := &logged{}, newLedger()
	client := newClient(t, Config{
		Endpoint: receiver.URL, FlushAt: 2, Uploads: 1, MaxCalls: 4, WhenFull: DropOldest, CloseTimeout: time.Millisecond,
		OnFailure: ledger.failure, Logger: text.logger(),
	})
	for n := 0; n < 10000; n++ {
		if err := client.Track(track(fmt.Sprint("m", n))); err != nil && err != ErrFull {
			t.Fatal(err)
		}
	}
	if err := client.Close(); err.(*LossError).Unsent != 4 || err.(*LossError).Calls < 9000 {
		t.Errorf("when the client was closed, %v", err)
	}
	if lines := strings.Count(text.String(), "\n"); lines > 20 {
		t.Errorf("the log has %d lines", lines)
	}
	if _, lost, _ := ledger.counts(); !strings.Contains(text.String(), "dropped") || lost < 9000 {
		t.Errorf("%d calls were reported; the log is %q", lost, text)
	}
}

func TestDropOldestRefusesWhenEverythingIsUnderWay(t *testing.T) {
	receiver, letGo := held(t)
	client := newClient(t, Config{Endpoint: receiver.URL, FlushAt: 1, MaxCalls: 1, WhenFull: DropOldest})
	must(t, client.Track(track("m1")))
	receiver.await(1)
	if err := client.Track(track("m2")); err != ErrFull {
		t.Errorf("the call returned %v", err)
	}
	letGo()
}

func TestMemoryIsBoundedInBytesToo(t *testing.T) {
	receiver, _ := held(t)
	client := newClient(t, Config{
		Endpoint: receiver.URL, FlushAt: 2500, MaxBytes: largestCall, WhenFull: Refuse, CloseTimeout: time.Millisecond,
	})
	accepted, size := 0, 0
	for ; accepted < 1000; accepted++ {
		if err := client.Track(track("m1")); err != nil {
			break
		}
	}
	size = accepted * len(`{"type":"track","messageId":"m1","timestamp":"2026-11-21T12:00:00.000Z","userId":"u1","event":"E"}`)
	if size > largestCall || size < largestCall*9/10 {
		t.Errorf("%d calls of %d bytes were accepted", accepted, size)
	}
}

func TestManyCallersShareLittleRoomAndNothingIsLost(t *testing.T) {
	for _, policy := range []WhenFull{Block, DropOldest, Refuse} {
		receiver := newReceiver(t, nil)
		ledger := newLedger()
		client := newClient(t, Config{
			Endpoint: receiver.URL, FlushAt: 3, MaxCalls: 10, WhenFull: policy,
			OnSuccess: ledger.success, OnFailure: ledger.failure,
		})
		var all sync.WaitGroup
		var refused sync.Map
		for worker := 0; worker < 8; worker++ {
			worker := worker
			all.Add(1)
			go func() {
				defer all.Done()
				for n := 0; n < 200; n++ {
					id := fmt.Sprintf("m%d-%d", worker, n)
					switch err := client.Track(track(id)); {
					case err == ErrFull && policy != Block:
						refused.Store(id, true)
					case err != nil:
						t.Error(err)
					}
				}
			}()
		}
		all.Wait()
		if err := client.Close(); len(ledger.lost) == 0 {
			must(t, err)
		} else {
			mustLose(t, err, len(ledger.lost))
		}
		sent := map[string]bool{}
		for _, item := range receiver.items() {
			sent[newReport(item, 0).MessageId] = true
		}
		for worker := 0; worker < 8; worker++ {
			for n := 0; n < 200; n++ {
				id := fmt.Sprintf("m%d-%d", worker, n)
				_, wasRefused := refused.Load(id)
				_, delivered := ledger.delivered[id]
				_, lost := ledger.lost[id]
				if delivered != sent[id] || count(wasRefused, delivered, lost) != 1 {
					t.Fatalf("%s: refused %v, delivered %v, lost %v, sent %v", id, wasRefused, delivered, lost, sent[id])
				}
			}
		}
	}
}

func count(facts ...bool) int {
	n := 0
	for _, fact := range facts {
		if fact {
			n++
		}
	}
	return n
}
