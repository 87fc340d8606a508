package analytics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

var benchmarked = Track{
	UserId: "f4ca124298",
	Event:  "Order Placed",
	Properties: map[string]interface{}{
		"orderId": "50314b8e9bcf000000000000", "total": 27.5, "currency": "EUR", "items": 3, "first": true,
	},
}

// The least cost of any library: the JSON of the same fields, with a given id and time.
func BenchmarkMarshalAlone(b *testing.B) {
	e := newEncoder()
	benchmarked.fill(&e.item)
	e.item.Type, e.item.MessageId, e.item.Timestamp = kindTrack, "0190a8f4-5b1c-7def-8abc-0123456789ab", "2026-11-21T12:00:00.000Z"
	b.ReportAllocs()
	for n := 0; n < b.N; n++ {
		if err := e.write(); err != nil {
			b.Fatal(err)
		}
	}
}

// The same through json.Marshal, as most programs do it.
func BenchmarkMarshalWithJSON(b *testing.B) {
	message := benchmarked
	b.ReportAllocs()
	for n := 0; n < b.N; n++ {
		if _, err := json.Marshal(&message); err != nil {
			b.Fatal(err)
		}
	}
}

// discard answers at once without a network.
var discard = roundTrip(func(request *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, request.Body)
	return &http.Response{
		StatusCode: 200, Header: http.Header{}, Request: request,
		Body: io.NopCloser(bytes.NewReader([]byte(`{"success":true}`))),
	}, nil
})

// One call until it is accepted; sending happens meanwhile, without a network.
func BenchmarkTrack(b *testing.B) {
	benchmarkTrack(b, Config{Transport: discard, FlushAt: 250})
}

// The same without any sending: what the calling goroutine alone pays.
func BenchmarkTrackUnsent(b *testing.B) {
	benchmarkTrack(b, Config{Transport: discard, FlushAt: mostCalls, MaxCalls: 1 << 30, MaxBytes: 1 << 30, FlushAfter: 1 << 60, WhenFull: Refuse, Uploads: 1,
		CloseTimeout: 1})
}

func BenchmarkTrackWithSpool(b *testing.B) {
	benchmarkTrack(b, Config{Transport: discard, FlushAt: 250, Spool: &Spool{Dir: b.TempDir()}})
}

func BenchmarkTrackMap(b *testing.B) {
	client, err := NewWithConfig("wk", Config{Transport: discard, FlushAt: 250})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	message := map[string]interface{}{
		"userId": benchmarked.UserId, "event": benchmarked.Event, "properties": benchmarked.Properties,
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n++ {
		if err := client.Track(message); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkTrack(b *testing.B, config Config) {
	config.Logger = (&logged{}).logger()
	client, err := NewWithConfig("wk", config)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	message := benchmarked
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n++ {
		if err := client.Track(&message); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
}

// From the first call to the last answer of a server on this machine.
func BenchmarkDelivery(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"success":true}`)
	}))
	defer server.Close()
	for _, flushAt := range []int{20, 250} {
		b.Run(fmt.Sprint("FlushAt=", flushAt), func(b *testing.B) {
			client, err := NewWithConfig("wk", Config{Endpoint: server.URL, FlushAt: flushAt})
			if err != nil {
				b.Fatal(err)
			}
			message := benchmarked
			b.ReportAllocs()
			b.ResetTimer()
			started := time.Now()
			for n := 0; n < b.N; n++ {
				if err := client.Track(&message); err != nil {
					b.Fatal(err)
				}
			}
			if err := client.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/time.Since(started).Seconds(), "calls/s")
		})
	}
}
