// Command go makes calls with the Go client library as it is told on stdin, and says on stdout what became of them. The suite in
// clients/e2e drives it beside the programs of the other libraries; README.md there describes the lines.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/millrace/millrace/clients/go/v2"
)

// largestLine is far beyond the largest call, so that too large ones can be made.
const largestLine = 64 << 20

// command is one line of stdin after the first.
type command struct {
	Id        json.RawMessage        `json:"id"`
	Do        string                 `json:"do"`
	Message   map[string]interface{} `json:"message"`
	WaitMs    int64                  `json:"waitMs"`
	TimeoutMs int64                  `json:"timeoutMs"`
}

// answer is one line of stdout about a command.
type answer struct {
	Id    json.RawMessage `json:"id"`
	Ok    bool            `json:"ok"`
	Error *failure        `json:"error,omitempty"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func newFailure(err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{Code: analytics.Code(err), Message: err.Error()}
}

func main() {
	os.Exit(run(os.Stdin, &lines{to: os.Stdout}))
}

// run returns the exit code: 0 at the end of stdin, 1 for a line it does not understand, 2 for options the client refuses.
func run(stdin io.Reader, out *lines) int {
	in := bufio.NewScanner(stdin)
	in.Buffer(nil, largestLine)
	if !in.Scan() {
		return explain(errors.New("the first line, with the options, is missing"))
	}
	client, err := open(in.Bytes(), out)
	if err != nil {
		var unreadable *json.SyntaxError
		if errors.As(err, &unreadable) || analytics.Code(err) == "" {
			return explain(err)
		}
		out.write(map[string]interface{}{"ready": false, "error": newFailure(err)})
		return 2
	}
	out.write(map[string]interface{}{"ready": true, "library": "millrace-go", "version": analytics.Version})
	for in.Scan() {
		var c command
		if err := decode(in.Bytes(), &c); err != nil {
			return explain(err)
		}
		err := c.do(client)
		if errors.Is(err, errUnknown) {
			return explain(err)
		}
		out.write(answer{Id: c.Id, Ok: err == nil, Error: newFailure(err)})
	}
	if err := in.Err(); err != nil {
		return explain(err)
	}
	return 0
}

var errUnknown = errors.New("no such command")

func (c command) do(client *analytics.Client) error {
	switch c.Do {
	case "flush":
		ctx, cancel := bounded(c.TimeoutMs)
		defer cancel()
		return client.Flush(ctx)
	case "close":
		if c.TimeoutMs == 0 {
			return client.Close()
		}
		ctx, cancel := bounded(c.TimeoutMs)
		defer cancel()
		return client.CloseContext(ctx)
	}
	call, ok := map[string]func(interface{}) error{
		"identify": client.Identify, "track": client.Track, "page": client.Page,
		"screen": client.Screen, "group": client.Group, "alias": client.Alias,
	}[c.Do]
	if !ok {
		return fmt.Errorf("%w: %q", errUnknown, c.Do)
	}
	if c.WaitMs == 0 {
		return call(c.Message)
	}
	ctx, cancel := bounded(c.WaitMs)
	defer cancel()
	message, err := typed(c.Do, c.Message)
	if err != nil {
		return err
	}
	return client.Enqueue(ctx, message)
}

// typed makes a message with types, which is what Enqueue takes, from one without.
func typed(kind string, fields map[string]interface{}) (analytics.Call, error) {
	message, ok := map[string]analytics.Call{
		"identify": &analytics.Identify{}, "track": &analytics.Track{}, "page": &analytics.Page{},
		"screen": &analytics.Screen{}, "group": &analytics.Group{}, "alias": &analytics.Alias{},
	}[kind]
	if !ok {
		return nil, fmt.Errorf("%w: %q", errUnknown, kind)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return message, decode(text, message)
}

func bounded(ms int64) (context.Context, context.CancelFunc) {
	if ms == 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
}

// decode refuses unknown keys, so that a typing mistake in a test cannot pass, and keeps numbers as they are written.
func decode(text []byte, to interface{}) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	return decoder.Decode(to)
}

func explain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
