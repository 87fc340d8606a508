package analytics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/millrace/millrace/clients/go/v2"
)

// server stands for a real one in the examples: it prints what it gets.
func server() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Batch []struct{ Type, UserId, Event, Name, GroupId, PreviousId string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, call := range body.Batch {
			what := call.Event + call.Name + call.GroupId + call.PreviousId
			fmt.Println(strings.TrimSpace("got " + call.Type + " " + call.UserId + " " + what))
		}
		fmt.Fprint(w, `{"success":true}`)
	}))
}

func Example() {
	server := server()
	defer server.Close()

	client := analytics.New("WRITE_KEY")
	client.Endpoint = server.URL

	if err := client.Track(&analytics.Track{
		UserId:     "u1",
		Event:      "Signed Up",
		Properties: map[string]interface{}{"plan": "pro"},
	}); err != nil {
		fmt.Println(err)
	}
	if err := client.Close(); err != nil {
		fmt.Println(err)
	}
	// Output: got track u1 Signed Up
}

func ExampleNewWithConfig() {
	server := server()
	defer server.Close()

	client, err := analytics.NewWithConfig("WRITE_KEY", analytics.Config{
		Endpoint:   server.URL,
		FlushAt:    100,
		FlushAfter: time.Second,
		WhenFull:   analytics.DropOldest,
		OnSuccess:  func(r analytics.Report) { fmt.Println("delivered", r.MessageId) },
		OnFailure:  func(r analytics.Report, err error) { fmt.Println("lost", r.MessageId, err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	client.Identify(analytics.Identify{
		Message: analytics.Message{MessageId: "m1"},
		UserId:  "u1",
		Traits:  map[string]interface{}{"email": "a@example.com"},
	})
	// Output:
	// got identify u1
	// delivered m1
}

// Messages can be maps with the keys of the wire, too.
func ExampleClient_Identify_map() {
	server := server()
	defer server.Close()
	client := analytics.New("WRITE_KEY")
	client.Endpoint = server.URL
	defer client.Close()

	client.Identify(map[string]interface{}{
		"userId": 42,
		"traits": map[string]interface{}{"plan": "pro"},
	})
	// Output: got identify 42
}

func ExampleClient_Enqueue() {
	server := server()
	defer server.Close()
	client := analytics.New("WRITE_KEY")
	client.Endpoint = server.URL
	defer client.Close()

	// The call waits for room no longer than the request it belongs to.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := client.Enqueue(ctx, analytics.Page{UserId: "u1", Name: "Start"}); err != nil {
		fmt.Println(err)
	}
	// Output: got page u1 Start
}

func ExampleClient_Flush() {
	server := server()
	defer server.Close()
	client := analytics.New("WRITE_KEY")
	client.Endpoint = server.URL
	defer client.Close()

	client.Group(analytics.Group{UserId: "u1", GroupId: "g1"})
	if err := client.Flush(context.Background()); err == nil {
		fmt.Println("all calls so far are answered for")
	}
	// Output:
	// got group u1 g1
	// all calls so far are answered for
}

// A call that is not accepted says so at once.
func ExampleCode() {
	client := analytics.New("WRITE_KEY")
	defer client.Close()

	err := client.Track(analytics.Track{UserId: "u1"})
	fmt.Println(err)
	fmt.Println(analytics.Code(err))

	var wrong *analytics.CallError
	fmt.Println(errors.As(err, &wrong) && wrong.Field == "event")
	// Output:
	// You must pass 'event'.
	// event_not_defined
	// true
}

// The next process sends the calls that this one could not send.
func ExampleSpool() {
	dir, err := os.MkdirTemp("", "spool")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	config := analytics.Config{
		Endpoint:     "http://127.0.0.1:1", // Nobody listens there.
		Spool:        &analytics.Spool{Dir: dir},
		CloseTimeout: time.Millisecond,
	}
	first, err := analytics.NewWithConfig("WRITE_KEY", config)
	if err != nil {
		fmt.Println(err)
		return
	}
	first.Alias(analytics.Alias{UserId: "u1", PreviousId: "a1"})
	first.Close()

	server := server()
	defer server.Close()
	config.Endpoint, config.CloseTimeout = server.URL, 0
	second, err := analytics.NewWithConfig("WRITE_KEY", config)
	if err != nil {
		fmt.Println(err)
		return
	}
	second.Close()
	// Output: got alias u1 a1
}
