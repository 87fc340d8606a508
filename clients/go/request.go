package analytics

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

const userAgent = libraryName + "/" + Version

// largestAnswer bounds what is read of an answer; only the reason of a refusal is of interest.
const largestAnswer = 4 * 1024

// envelope makes requests from batches. The body is {"sentAt":…,"context":…,"batch":[…]}.
type envelope struct {
	endpoint string
	header   http.Header
	// middle is what stands between the time and the first call.
	middle []byte
}

const (
	opening = `{"sentAt":"`
	closing = `]}`
)

// newEnvelope fails with a *ConfigError if the context cannot be written.
func newEnvelope(key string, c Config) (*envelope, error) {
	own := make(map[string]interface{}, len(c.Context)+1)
	own["library"] = map[string]interface{}{"name": libraryName, "version": Version}
	for name, value := range c.Context {
		own[name] = value
	}
	var middle bytes.Buffer
	middle.WriteString(`","context":`)
	encoder := json.NewEncoder(&middle)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(own); err != nil {
		return nil, &ConfigError{"Context", "cannot be written as JSON: " + err.Error()}
	}
	if middle.Len() > largestCall {
		return nil, &ConfigError{"Context", "has more than " + strconv.Itoa(largestCall) + " bytes of JSON"}
	}
	middle.Truncate(middle.Len() - 1) // The line feed json.Encoder ends with.
	middle.WriteString(`,"batch":[`)
	return &envelope{
		endpoint: c.Endpoint,
		header: http.Header{
			"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(key+":"))},
			"Content-Type":  {"application/json"},
			"User-Agent":    {userAgent},
		},
		middle: middle.Bytes(),
	}, nil
}

// room is how many bytes of a request are left for the calls and the commas between them.
func (e *envelope) room() int {
	return largestBatch - len(opening) - timeLength - len(e.middle) - len(closing)
}

// request makes the request of one try. tries counts those before it.
func (e *envelope) request(ctx context.Context, bodies [][]byte, tries int, now time.Time) (*http.Request, error) {
	head := make([]byte, 0, len(opening)+timeLength+len(e.middle))
	head = append(head, opening...)
	head = appendTime(head, now)
	head = append(head, e.middle...)
	length := len(head) + len(bodies) - 1 + len(closing)
	for _, body := range bodies {
		length += len(body)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, nil)
	if err != nil {
		return nil, err
	}
	request.Header = e.header.Clone()
	if tries > 0 {
		request.Header.Set("X-Retry-Count", strconv.Itoa(tries))
	}
	request.ContentLength = int64(length)
	// The transport may ask for the body again, when a connection it reused turns out to be dead.
	request.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(&bodyReader{head: head, bodies: bodies}), nil
	}
	request.Body, err = request.GetBody()
	return request, err
}

// bodyReader reads head, the calls with commas between them, and the closing, without a copy of the whole: a batch can wait
// an hour for its next try, and its calls are in memory already.
type bodyReader struct {
	head   []byte
	bodies [][]byte
	next   int // part that is read: 0 is head, then a call or a comma each
	offset int
}

var comma = []byte{','}

func (r *bodyReader) part() []byte {
	last := 2 * len(r.bodies)
	switch {
	case r.next == 0:
		return r.head
	case r.next == last:
		return []byte(closing)
	case r.next > last:
		return nil
	case r.next%2 == 0:
		return comma
	}
	return r.bodies[r.next/2]
}

func (r *bodyReader) Read(to []byte) (int, error) {
	count := 0
	for count < len(to) {
		part := r.part()
		if part == nil {
			break
		}
		copied := copy(to[count:], part[r.offset:])
		count += copied
		if r.offset += copied; r.offset == len(part) {
			r.next, r.offset = r.next+1, 0
		}
	}
	if count == 0 && len(to) > 0 {
		return 0, io.EOF
	}
	return count, nil
}

// refusal makes the error of an answer that is not 2xx, with what the server says about it.
func refusal(response *http.Response) *StatusError {
	failure := &StatusError{Status: response.StatusCode}
	text, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return failure
	}
	var said struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	// Answers of proxies are often no JSON; then the status says all there is.
	if json.Unmarshal(text, &said) == nil {
		failure.ServerCode, failure.ServerMessage = said.Code, said.Message
	}
	if location := response.Header.Get("Location"); failure.ServerMessage == "" && location != "" {
		failure.ServerMessage = "redirects to " + location + " are not followed; set the endpoint to the final address"
	}
	return failure
}
