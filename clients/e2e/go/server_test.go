package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/clients/go/v2"
)

const secret = "s3cret"

// webhook is the endpoint behind the real server: it checks signatures and keeps the last event of each message id.
type webhook struct {
	*httptest.Server
	mu     sync.Mutex
	events map[string]map[string]interface{}
	more   chan struct{}
}

func newWebhook(t *testing.T) *webhook {
	w := &webhook{events: map[string]map[string]interface{}{}, more: make(chan struct{}, 1)}
	w.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		digest := hmac.New(sha1.New, []byte(secret))
		digest.Write(body)
		if r.Header.Get("X-Signature") != hex.EncodeToString(digest.Sum(nil)) {
			t.Errorf("a signature is wrong: %s", body)
		}
		var event map[string]interface{}
		if err := json.Unmarshal(body, &event); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.events[event["messageId"].(string)] = event
		w.mu.Unlock()
		select {
		case w.more <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(w.Server.Close)
	return w
}

// await waits until there are events of so many message ids.
func (w *webhook) await(t *testing.T, n int) map[string]map[string]interface{} {
	limit := time.After(30 * time.Second)
	for {
		w.mu.Lock()
		if len(w.events) >= n {
			defer w.mu.Unlock()
			return w.events
		}
		w.mu.Unlock()
		select {
		case <-w.more:
		case <-limit:
			t.Fatalf("events of %d calls came, not of %d", len(w.events), n)
		}
	}
}

// millrace starts the real server on an address and returns how to kill it.
func millrace(t *testing.T, dir, address, endpoint string) (kill func()) {
	config := filepath.Join(dir, "millrace.yaml")
	err := os.WriteFile(config, []byte(fmt.Sprintf(`
egress: { allow: [127.0.0.0/8] }
sources: [{ name: website, writeKeys: [wk] }]
destinations:
  - { name: crm, type: webhooks, sources: [website], settings: { endpoints: [{ url: %q }], sharedSecret: %s } }
`, endpoint, secret)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(filepath.Join(root, "node_modules", ".bin", "node"), filepath.Join(root, "cli", "bin", "millrace.js"),
		"start", "--config", config, "--data", filepath.Join(dir, "data"), "--host", host, "--port", port)
	stderr, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for said := ""; lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "ready on http") {
			go io.Copy(io.Discard, stderr)
			return func() {
				server.Process.Kill()
				server.Wait()
			}
		}
	}
	t.Fatal("the server ended before it was ready")
	return nil
}

func freeAddress(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestEveryKindOfCallArrivesAtTheWebhookOfTheRealServer(t *testing.T) {
	webhook, address := newWebhook(t), freeAddress(t)
	defer millrace(t, t.TempDir(), address, webhook.URL)()
	client := analytics.New("wk")
	client.Endpoint = "http://" + address
	id := func(text string) analytics.Message { return analytics.Message{MessageId: text} }
	more := map[string]interface{}{"k": "Größe <&>"}
	for _, call := range []analytics.Call{
		analytics.Identify{Message: id("m1"), UserId: "u1", Traits: more},
		analytics.Track{Message: id("m2"), UserId: "u1", Event: "E", Properties: more},
		analytics.Page{Message: id("m3"), UserId: "u1", Name: "P", Traits: more},
		analytics.Screen{Message: id("m4"), UserId: "u1", Name: "S", Properties: more},
		analytics.Group{Message: id("m5"), UserId: "u1", GroupId: "g1", Traits: more},
		analytics.Alias{Message: id("m6"), UserId: "u1", PreviousId: "a1"},
	} {
		if err := client.Enqueue(context.Background(), call); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	events := webhook.await(t, 6)
	for id, want := range map[string][2]interface{}{
		"m1": {"traits", more}, "m2": {"properties", more}, "m3": {"properties", more},
		"m4": {"properties", more}, "m5": {"traits", more}, "m6": {"Previous ID", "a1"},
	} {
		if got := events[id][want[0].(string)]; fmt.Sprint(got) != fmt.Sprint(want[1]) {
			t.Errorf("%s of %s is %v", want[0], id, got)
		}
		library := events[id]["context"].(map[string]interface{})["library"]
		if fmt.Sprint(library) != "map[name:millrace-go version:"+analytics.Version+"]" {
			t.Errorf("the library of %s is %v", id, library)
		}
	}
}

func TestNothingIsLostWhenTheRealServerIsKilledTwice(t *testing.T) {
	webhook, address, dir := newWebhook(t), freeAddress(t), t.TempDir()
	kill := millrace(t, dir, address, webhook.URL)
	defer func() { kill() }()
	client, err := analytics.NewWithConfig("wk", analytics.Config{
		Endpoint:  "http://" + address,
		Retry:     analytics.Retry{Tries: 1000, First: 10 * time.Millisecond, Longest: 100 * time.Millisecond},
		OnFailure: func(r analytics.Report, err error) { t.Errorf("%s: %v", r.MessageId, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	const calls = 6000
	for n := 0; n < calls; n++ {
		if n == calls/3 || n == calls*2/3 {
			kill()
			kill = millrace(t, dir, address, webhook.URL)
		}
		message := analytics.Message{MessageId: fmt.Sprint("m", n)}
		if err := client.Track(analytics.Track{Message: message, UserId: "u1", Event: "E"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.CloseContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	webhook.await(t, calls)
}

func TestTheServerRefusesAnUnknownWriteKeyAndTheCallIsReported(t *testing.T) {
	webhook, address := newWebhook(t), freeAddress(t)
	defer millrace(t, t.TempDir(), address, webhook.URL)()
	var lost error
	client, err := analytics.NewWithConfig("nobody", analytics.Config{
		Endpoint:  "http://" + address,
		OnFailure: func(_ analytics.Report, err error) { lost = err },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Track(analytics.Track{UserId: "u1", Event: "E"}); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); analytics.Code(err) != "refused" {
		t.Errorf("Close returned %v", err)
	}
	refused, ok := lost.(*analytics.StatusError)
	if !ok || refused.Status != 401 || refused.ServerCode != "invalid_write_key" {
		t.Errorf("the call was reported as %v", lost)
	}
}
