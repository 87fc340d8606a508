package main

import (
	"encoding/json"
	"io"
	"log"
	"sync"

	"github.com/millrace/millrace/clients/go/v2"
)

// lines writes one JSON object per line, each at once and whole, from many goroutines.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) write(line interface{}) {
	text, err := json.Marshal(line)
	if err != nil {
		log.Fatal(err) // A mistake in this program.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.to.Write(append(text, '\n')); err != nil {
		log.Fatal(err) // Nobody listens any more.
	}
}

// callback is one line about one accepted call.
type callback struct {
	Callback  string   `json:"callback"`
	MessageId string   `json:"messageId"`
	Type      string   `json:"type"`
	Tries     int      `json:"tries"`
	Error     *failure `json:"error,omitempty"`
}

func (l *lines) success(r analytics.Report) {
	l.write(callback{Callback: "success", MessageId: r.MessageId, Type: r.Type, Tries: r.Tries})
}

func (l *lines) failure(r analytics.Report, err error) {
	l.write(callback{Callback: "failure", MessageId: r.MessageId, Type: r.Type, Tries: r.Tries, Error: newFailure(err)})
}
