package analytics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The fixtures are shared with the other client libraries; spec/fixtures/client/README.md says what they mean.

func loadCases[C any](t *testing.T, name string) []C {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "spec", "fixtures", "client", name))
	must(t, err)
	var file struct {
		About string `json:"about"`
		Cases []C    `json:"cases"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	must(t, decoder.Decode(&file))
	if len(file.Cases) == 0 {
		t.Fatalf("%s has no cases", name)
	}
	return file.Cases
}

type callCase struct {
	Name    string                 `json:"name"`
	Untyped bool                   `json:"untyped"`
	Call    map[string]interface{} `json:"call"`
	Expect  struct {
		Item  map[string]interface{} `json:"item"`
		Bytes int                    `json:"bytes"`
		Error string                 `json:"error"`
	} `json:"expect"`
}

func TestCallsBecomeTheItemsOfTheSharedFixtures(t *testing.T) {
	for _, file := range []string{"calls.json", "sizes.json"} {
		for _, c := range loadCases[callCase](t, file) {
			t.Run(c.Name+" (map)", func(t *testing.T) { c.run(t, asMap) })
			if !c.Untyped {
				t.Run(c.Name+" (message)", func(t *testing.T) { c.run(t, asMessage) })
			}
		}
	}
}

func (c callCase) run(t *testing.T, message func(t *testing.T, call map[string]interface{}) interface{}) {
	receiver := newReceiver(t, nil)
	client := newClient(t, Config{Endpoint: receiver.URL})
	call := expand(c.Call).(map[string]interface{})
	before := time.Now().Truncate(time.Millisecond)
	err := method(client, call["type"])(message(t, call))
	after := time.Now()
	if c.Expect.Error != "" {
		if Code(err) != c.Expect.Error {
			t.Errorf("error is %v (%s), not %s", err, Code(err), c.Expect.Error)
		}
		must(t, client.Close())
		if sent := len(receiver.requests()); sent != 0 {
			t.Errorf("%d requests were sent", sent)
		}
		return
	}
	must(t, err)
	must(t, client.Close())
	items := receiver.items()
	if len(items) != 1 {
		t.Fatalf("%d items were sent", len(items))
	}
	if c.Expect.Bytes != 0 {
		if len(items[0]) != c.Expect.Bytes {
			t.Errorf("the item has %d bytes, not %d", len(items[0]), c.Expect.Bytes)
		}
		return
	}
	var got map[string]interface{}
	must(t, json.Unmarshal(items[0], &got))
	if c.Expect.Item["messageId"] == "<id>" {
		if id, _ := got["messageId"].(string); len(id) == 0 || len(id) > longestMessageId {
			t.Errorf("the message id is %q", id)
		}
		got["messageId"] = "<id>"
	}
	if c.Expect.Item["timestamp"] == "<now>" {
		at, err := time.Parse(timeLayout, got["timestamp"].(string))
		if err != nil || at.Before(before) || at.After(after) {
			t.Errorf("the timestamp is %v, which is not that of the call", got["timestamp"])
		}
		got["timestamp"] = "<now>"
	}
	if !reflect.DeepEqual(got, c.Expect.Item) {
		t.Errorf("the item is\n%v, not\n%v", got, c.Expect.Item)
	}
}

func method(client *Client, kind interface{}) func(interface{}) error {
	return map[interface{}]func(interface{}) error{
		"identify": client.Identify, "track": client.Track, "page": client.Page,
		"screen": client.Screen, "group": client.Group, "alias": client.Alias,
	}[kind]
}

func asMap(_ *testing.T, call map[string]interface{}) interface{} {
	message := map[string]interface{}{}
	for name, value := range call {
		if name != "type" {
			message[name] = value
		}
	}
	return message
}

// asMessage makes the typed message of a call, as a pointer.
func asMessage(t *testing.T, call map[string]interface{}) interface{} {
	message := map[string]interface{}{
		"identify": &Identify{}, "track": &Track{}, "page": &Page{}, "screen": &Screen{}, "group": &Group{}, "alias": &Alias{},
	}[call["type"].(string)]
	fields := reflect.ValueOf(message).Elem()
	for name, value := range call {
		if name == "type" || value == nil {
			continue
		}
		if at, ok := value.(time.Time); ok {
			value = at.Format(time.RFC3339Nano)
		}
		field := fields.FieldByName(strings.ToUpper(name[:1]) + name[1:])
		if !field.IsValid() && name == "properties" {
			field = fields.FieldByName("Traits")
		}
		if !field.IsValid() {
			t.Fatalf("%T has no field for %s", message, name)
		}
		field.Set(reflect.ValueOf(value))
	}
	return message
}

// expand replaces the markers of a fixture by the values they stand for.
func expand(value interface{}) interface{} {
	switch v := value.(type) {
	case []interface{}:
		all := make([]interface{}, len(v))
		for n := range v {
			all[n] = expand(v[n])
		}
		return all
	case map[string]interface{}:
		if repeat, ok := v["$repeat"].([]interface{}); ok {
			return strings.Repeat(repeat[0].(string), int(repeat[1].(float64)))
		}
		if levels, ok := v["$nest"].(float64); ok {
			nested := map[string]interface{}{}
			for n := 1; n < int(levels); n++ {
				nested = map[string]interface{}{"a": nested}
			}
			return nested
		}
		if text, ok := v["$date"].(string); ok {
			at, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				panic(err)
			}
			return at
		}
		if v["$cycle"] == true {
			cycle := map[string]interface{}{}
			cycle["self"] = cycle
			return cycle
		}
		all := make(map[string]interface{}, len(v))
		for name := range v {
			all[name] = expand(v[name])
		}
		return all
	}
	return value
}

func TestBatchesAreDividedAsInTheSharedFixtures(t *testing.T) {
	type batchCase struct {
		Name    string `json:"name"`
		Options struct {
			FlushAt int `json:"flushAt"`
		} `json:"options"`
		Calls  []map[string]interface{} `json:"calls"`
		Expect struct {
			Batches [][]string    `json:"batches"`
			Errors  []interface{} `json:"errors"`
		} `json:"expect"`
	}
	for _, c := range loadCases[batchCase](t, "batches.json") {
		t.Run(c.Name, func(t *testing.T) {
			receiver := newReceiver(t, nil)
			// One upload at a time, so that requests come in the order of their calls.
			client := newClient(t, Config{Endpoint: receiver.URL, FlushAt: c.Options.FlushAt, Uploads: 1})
			for n, call := range c.Calls {
				call = expand(call).(map[string]interface{})
				err := method(client, call["type"])(asMap(t, call))
				if c.Expect.Errors == nil {
					must(t, err)
				} else if want, _ := c.Expect.Errors[n].(string); Code(err) != want {
					t.Errorf("call %d returned %v, not %q", n, err, want)
				}
			}
			must(t, client.Flush(context.Background()))
			var batches [][]string
			for _, request := range receiver.requests() {
				batches = append(batches, request.ids())
				if request.size > largestBatch {
					t.Errorf("a request has %d bytes", request.size)
				}
			}
			if !reflect.DeepEqual(batches, c.Expect.Batches) {
				t.Errorf("the batches are %v, not %v", batches, c.Expect.Batches)
			}
		})
	}
}

func TestRequestsAreThoseOfTheSharedFixtures(t *testing.T) {
	type requestCase struct {
		Name    string `json:"name"`
		Options struct {
			WriteKey     string `json:"writeKey"`
			EndpointPath string `json:"endpointPath"`
		} `json:"options"`
		Calls  []map[string]interface{} `json:"calls"`
		Expect struct {
			Method  string                 `json:"method"`
			Path    string                 `json:"path"`
			Headers map[string]string      `json:"headers"`
			Body    map[string]interface{} `json:"body"`
		} `json:"expect"`
	}
	for _, c := range loadCases[requestCase](t, "requests.json") {
		t.Run(c.Name, func(t *testing.T) {
			receiver := newReceiver(t, nil)
			client, err := NewWithConfig(c.Options.WriteKey, Config{Endpoint: receiver.URL + c.Options.EndpointPath})
			must(t, err)
			for _, call := range c.Calls {
				must(t, method(client, call["type"])(asMap(t, call)))
			}
			must(t, client.Close())
			got := receiver.await(1)[0]
			if got.method != c.Expect.Method || got.target != c.Expect.Path {
				t.Errorf("the request is %s %s", got.method, got.target)
			}
			for name, value := range c.Expect.Headers {
				if got.header.Get(name) != value {
					t.Errorf("%s is %q, not %q", name, got.header.Get(name), value)
				}
			}
			c.Expect.Body["context"].(map[string]interface{})["library"] =
				map[string]interface{}{"name": libraryName, "version": Version}
			if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(got.body.SentAt) {
				t.Errorf("sentAt is %q", got.body.SentAt)
			}
			c.Expect.Body["sentAt"] = got.body.SentAt
			var body map[string]interface{}
			must(t, json.Unmarshal(got.raw, &body))
			if !reflect.DeepEqual(body, c.Expect.Body) {
				t.Errorf("the body is\n%v, not\n%v", body, c.Expect.Body)
			}
		})
	}
}

func TestAnswersAreTakenAsInTheSharedFixtures(t *testing.T) {
	type answerCase struct {
		Name   string `json:"name"`
		Answer struct {
			Status  int               `json:"status"`
			Headers map[string]string `json:"headers"`
			Network bool              `json:"network"`
		} `json:"answer"`
		Expect struct {
			Outcome string `json:"outcome"`
		} `json:"expect"`
	}
	for _, c := range loadCases[answerCase](t, "answers.json") {
		t.Run(c.Name, func(t *testing.T) {
			transport := roundTrip(func(request *http.Request) (*http.Response, error) {
				if c.Answer.Network {
					return nil, errors.New("connection reset by peer")
				}
				recorder := httptest.NewRecorder()
				for name, value := range c.Answer.Headers {
					recorder.Header().Set(name, value)
				}
				recorder.WriteHeader(c.Answer.Status)
				response := recorder.Result()
				response.Request = request
				return response, nil
			})
			ledger := newLedger()
			retry := quick
			retry.Tries = 2
			client := newClient(t, Config{
				Retry: retry, Transport: transport, OnSuccess: ledger.success, OnFailure: ledger.failure,
			})
			must(t, client.Track(Track{Message: Message{MessageId: "m1"}, UserId: "u1", Event: "E"}))
			want := map[string]string{"delivered": "", "refused": "refused", "retry": "gave_up"}[c.Expect.Outcome]
			if err := client.Close(); Code(err) != want {
				t.Errorf("Close returned %v, not %q", err, want)
			}
			if _, known := ledger.lost["m1"]; known != (want != "") || Code(ledger.lost["m1"]) != want {
				t.Errorf("the call was reported as %v, not %q", ledger.lost["m1"], want)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func TestWaitsAreWithinTheBoundsOfTheSharedFixtures(t *testing.T) {
	type waitCase struct {
		Name       string `json:"name"`
		Tries      int    `json:"tries"`
		RetryAfter string `json:"retryAfter"`
		Expect     struct {
			AtLeastMs float64 `json:"atLeastMs"`
			AtMostMs  float64 `json:"atMostMs"`
		} `json:"expect"`
	}
	policy, err := Retry{}.normalize()
	must(t, err)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	dice := newDice(now)
	for _, c := range loadCases[waitCase](t, "waits.json") {
		t.Run(c.Name, func(t *testing.T) {
			after := retryAfter(c.RetryAfter, now)
			different := map[time.Duration]bool{}
			for n := 0; n < 1000; n++ {
				wait := policy.wait(c.Tries, after, dice.draw())
				different[wait] = true
				if ms := wait.Seconds() * 1000; ms < c.Expect.AtLeastMs || ms > c.Expect.AtMostMs {
					t.Fatalf("the wait is %v", wait)
				}
			}
			if len(different) < 500 {
				t.Errorf("1000 waits have only %d different lengths", len(different))
			}
		})
	}
}
