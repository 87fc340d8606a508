package analytics

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzAnAcceptedCallIsWhatWasGivenAndWithinTheLimits(f *testing.F) {
	f.Add("u1", "", "Signed Up", "key", "value", "2026-11-21T12:00:00Z", "m1")
	f.Add("", "a1", "E\x00\u2028<&>", "ключ", strings.Repeat("x", 40000), "", "")
	f.Add("\xff", "", "E", "\xc3\x28", "\"\\{[", "yesterday", strings.Repeat("m", 101))
	f.Fuzz(func(t *testing.T, userId, anonymousId, event, key, value, timestamp, messageId string) {
		e := newEncoder()
		defer e.release()
		given := Track{
			UserId: userId, AnonymousId: anonymousId, Event: event,
			Properties: map[string]interface{}{key: value},
			Message:    Message{MessageId: messageId, Timestamp: timestamp},
		}
		d := &dispatcher{}
		body, err := d.encode(context.Background(), kindTrack, &given, time.Now())
		if err != nil {
			if Code(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		if len(body) > largestCall || bytes.ContainsRune(body, '\n') {
			t.Fatalf("%d bytes: %q", len(body), body)
		}
		var got Track
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %q", err, body)
		}
		for _, pair := range [][2]string{{userId, got.UserId}, {anonymousId, got.AnonymousId}, {event, got.Event}} {
			if utf8.ValidString(pair[0]) && pair[0] != pair[1] {
				t.Fatalf("%q became %q", pair[0], pair[1])
			}
		}
		if utf8.ValidString(key+value) && got.Properties[key] != value {
			t.Fatalf("%q became %q", value, got.Properties[key])
		}
		if got.MessageId == "" || utf8.RuneCountInString(got.MessageId) > longestMessageId {
			t.Fatalf("the message id is %q", got.MessageId)
		}
		if _, err := time.Parse(timeLayout, got.Timestamp); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzATimeThatIsReadIsWrittenTheOneWay(f *testing.F) {
	for _, text := range []string{"2026-11-21T12:00:00.123Z", "2015-2-02", "2026-11-21 12:00+0530", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, ok := parseTime(text)
		if !ok {
			return
		}
		written := formatTime(at)
		if want := at.UTC().Format(timeLayout); written != want {
			t.Fatalf("%q became %q, not %q", text, written, want)
		}
		again, ok := parseTime(written)
		if len(written) != timeLength || !ok || formatTime(again) != written {
			t.Fatalf("%q became %q", text, written)
		}
	})
}

func FuzzTheDepthOfJSON(f *testing.F) {
	f.Add(strings.Repeat("[", 600) + strings.Repeat("]", 600))
	f.Add(strings.Repeat(`{"a":`, 501) + `"[[\"[{"` + strings.Repeat("}", 501))
	f.Add(`"` + strings.Repeat(`[{\\\"`, 300) + `"`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		depth, deepest := 0, 0
		for {
			token, err := decoder.Token()
			if err != nil {
				break
			}
			switch token {
			case json.Delim('{'), json.Delim('['):
				depth++
			case json.Delim('}'), json.Delim(']'):
				depth--
			}
			if depth > deepest {
				deepest = depth
			}
		}
		// Short texts are not counted, because they cannot be too deep.
		if got := depthOf([]byte(text)); got != deepest && (got != 0 || deepest > deepestCall) {
			t.Fatalf("the depth is %d, not %d", got, deepest)
		}
	})
}

func FuzzAnyBytesCanLieInASpool(f *testing.F) {
	whole := appendRecord([]byte(segmentMagic), []byte(`{"type":"track","messageId":"m1"}`))
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte{})
	f.Add(append(append([]byte(nil), whole...), 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(segmentPath(dir, 1), text, 0o600))
		must(t, os.WriteFile(dir+"/cursor", text[:min(len(text), cursorLength)], 0o600))
		s, err := openSpool(Spool{Dir: dir, MaxBytes: leastSpoolBytes}, (&logged{}).logger())
		must(t, err)
		must(t, s.add([]byte(`{"n":1}`)))
		for s.waiting() > 0 {
			before := s.waiting()
			out := s.take(10, largestBatch)
			if out.count() == 0 || s.waiting() != before-out.count() {
				t.Fatalf("of %d calls %d were handed out and %d are left", before, out.count(), s.waiting())
			}
			s.forget(out)
		}
		must(t, s.close())
	})
}
