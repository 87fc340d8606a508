package analytics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const nowhere = "http://127.0.0.1:1"

// spooled makes a client with a spool that is closed at once when it is closed: what is not sent stays in the spool.
func spooled(t *testing.T, dir, endpoint string, ledger *ledger) *Client {
	t.Helper()
	return newClient(t, Config{
		Endpoint: endpoint, Spool: &Spool{Dir: dir}, CloseTimeout: time.Millisecond,
		OnSuccess: ledger.success, OnFailure: ledger.failure,
	})
}

func TestWhatASpoolHoldsIsSentByTheNextClient(t *testing.T) {
	dir, ledger := t.TempDir(), newLedger()
	first := spooled(t, dir, nowhere, ledger)
	for n := 0; n < 50; n++ {
		must(t, first.Track(track(fmt.Sprint("m", n))))
	}
	must(t, first.Close())
	if _, _, reports := ledger.counts(); reports != 0 {
		t.Errorf("%d calls were reported, though they are neither delivered nor lost", reports)
	}
	receiver := newReceiver(t, nil)
	second := spooled(t, dir, receiver.URL, ledger)
	must(t, second.Flush(context.Background()))
	if delivered, lost, _ := ledger.counts(); delivered != 50 || lost != 0 {
		t.Errorf("%d delivered, %d lost", delivered, lost)
	}
	must(t, second.Close())
	third := spooled(t, dir, receiver.URL, ledger)
	must(t, third.Flush(context.Background()))
	must(t, third.Close())
	if sent := len(receiver.items()); sent != 50 {
		t.Errorf("50 calls were sent %d times", sent)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix)); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

func TestWithASpoolNothingIsGivenUp(t *testing.T) {
	receiver := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 30 {
			w.WriteHeader(503)
		}
	})
	ledger := newLedger()
	client := newClient(t, Config{Endpoint: receiver.URL, Spool: &Spool{Dir: t.TempDir()}, OnSuccess: ledger.success})
	must(t, client.Track(track("m1")))
	must(t, client.Flush(context.Background()))
	if tries := ledger.delivered["m1"].Tries; tries != 31 {
		t.Errorf("it was delivered with try %d", tries)
	}
}

func TestARefusedCallLeavesTheSpool(t *testing.T) {
	dir, ledger := t.TempDir(), newLedger()
	client := spooled(t, dir, newReceiver(t, status(400)).URL, ledger)
	must(t, client.Track(track("m1")))
	must(t, client.Flush(context.Background()))
	mustLose(t, client.Close(), 1)
	if Code(ledger.lost["m1"]) != "refused" {
		t.Errorf("it was reported as %v", ledger.lost["m1"])
	}
	receiver := newReceiver(t, nil)
	next := spooled(t, dir, receiver.URL, ledger)
	must(t, next.Flush(context.Background()))
	if sent := len(receiver.items()); sent != 0 {
		t.Errorf("%d calls were sent again", sent)
	}
}

func TestAFolderHasOneClientAtATime(t *testing.T) {
	dir := t.TempDir()
	client := spooled(t, dir, nowhere, newLedger())
	_, err := NewWithConfig("wk", Config{Spool: &Spool{Dir: dir}})
	if !errors.Is(err, errLocked) || Code(err) != "spool_failed" {
		t.Errorf("the second client got %v", err)
	}
	must(t, client.Close())
	again, err := NewWithConfig("wk", Config{Spool: &Spool{Dir: dir}})
	must(t, err)
	must(t, again.Close())
}

func TestAFullSpoolDropsItsOldestCallsAndReportsEach(t *testing.T) {
	dir, ledger := t.TempDir(), newLedger()
	receiver, letGo := held(t)
	client := newClient(t, Config{
		Endpoint: receiver.URL, FlushAt: 100, Uploads: 1, Spool: &Spool{Dir: dir, MaxBytes: leastSpoolBytes},
		OnSuccess: ledger.success, OnFailure: ledger.failure,
	})
	long := strings.Repeat("x", 1000)
	const calls = 3000
	for n := 0; n < calls; n++ {
		message := track(fmt.Sprint("m", n))
		message.Properties = map[string]interface{}{"long": long}
		must(t, client.Track(message))
		if n == 100 {
			receiver.await(1)
		}
	}
	if size := folderSize(t, dir); size > leastSpoolBytes+1024 {
		t.Errorf("the folder has %d bytes", size)
	}
	letGo()
	must(t, client.Flush(context.Background()))
	delivered, lost, reports := ledger.counts()
	if delivered+lost != calls || reports != calls || lost < calls/2 || delivered < 500 {
		t.Errorf("%d delivered, %d lost, %d reports", delivered, lost, reports)
	}
	// The oldest calls are lost, except those of the batch under way.
	for n := 0; n < calls; n++ {
		_, gone := ledger.lost[fmt.Sprint("m", n)]
		if want := n >= 100 && n < 100+lost; gone != want {
			t.Fatalf("m%d: lost is %v", n, gone)
		}
	}
}

func folderSize(t *testing.T, dir string) (size int64) {
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		must(t, err)
		size += info.Size()
	}
	return size
}

func TestASpoolCanBlockOrRefuseInstead(t *testing.T) {
	for _, policy := range []WhenFull{Block, Refuse} {
		client := newClient(t, Config{
			Endpoint: nowhere, WhenFull: policy, CloseTimeout: time.Millisecond,
			Spool: &Spool{Dir: t.TempDir(), MaxBytes: leastSpoolBytes},
		})
		message := track("m1")
		message.Properties = map[string]interface{}{"long": strings.Repeat("x", 30000)}
		ctx, cancel := context.Background(), func() {}
		if policy == Block {
			ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
		}
		defer cancel()
		var err error
		for n := 0; err == nil && n < 100; n++ {
			err = client.Enqueue(ctx, message)
		}
		if want := map[WhenFull]string{Block: "canceled", Refuse: "full"}[policy]; Code(err) != want {
			t.Errorf("a call beyond the size returned %v", err)
		}
	}
}

func TestATornEndIsCutAndDamageIsReported(t *testing.T) {
	for _, c := range []struct {
		name              string
		damage            func(text []byte) []byte
		delivered, losses int
	}{
		{"torn in a call", func(text []byte) []byte { return text[:len(text)-5] }, 9, 0},
		{"torn in the length of a call", func(text []byte) []byte { return append(text, 7, 0, 0) }, 10, 0},
		{"zeros behind the end", func(text []byte) []byte { return append(text, make([]byte, 64)...) }, 10, 1},
		{"a flipped bit", func(text []byte) []byte { text[len(text)-5] ^= 1; return text }, 9, 1},
		{"a strange head", func(text []byte) []byte { text[0]++; return text }, 0, 1},
		{"nothing but half a head", func(text []byte) []byte { return text[:4] }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, ledger := t.TempDir(), newLedger()
			client := spooled(t, dir, nowhere, ledger)
			for n := 0; n < 10; n++ {
				must(t, client.Track(track(fmt.Sprint("m", n))))
			}
			must(t, client.Close())
			files, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
			must(t, err)
			text, err := os.ReadFile(files[0])
			must(t, err)
			must(t, os.WriteFile(files[0], c.damage(text), 0o600))
			next := spooled(t, dir, newReceiver(t, nil).URL, ledger)
			must(t, next.Track(track("after")))
			must(t, next.Flush(context.Background()))
			delivered, lost, _ := ledger.counts()
			if delivered != c.delivered+1 || lost != c.losses {
				t.Errorf("%d delivered, %d losses", delivered, lost)
			}
			if err := ledger.lost[""]; lost > 0 && Code(err) != "spool_damaged" {
				t.Errorf("reported as %v", err)
			}
		})
	}
}

func TestDamageThatComesWhileTheClientRunsCostsOnlyItsFile(t *testing.T) {
	dir, ledger := t.TempDir(), newLedger()
	receiver, letGo := held(t)
	client := newClient(t, Config{
		Endpoint: receiver.URL, FlushAt: 1, Uploads: 1, Spool: &Spool{Dir: dir, MaxBytes: leastSpoolBytes},
		OnSuccess: ledger.success, OnFailure: ledger.failure,
	})
	message := track("")
	message.Properties = map[string]interface{}{"long": strings.Repeat("x", 30000)}
	for n := 0; n < 8; n++ { // Two fit into one file.
		message.MessageId = fmt.Sprint("m", n)
		must(t, client.Track(message))
	}
	receiver.await(1)
	files, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	must(t, err)
	must(t, os.WriteFile(files[1], []byte(segmentMagic), 0o600))
	letGo()
	must(t, client.Flush(context.Background()))
	if delivered, _, reports := ledger.counts(); delivered != 6 || reports != 8 || ledger.lost[""] != ErrSpoolDamaged {
		t.Errorf("%d delivered in %d reports, losses %v", delivered, reports, ledger.lost)
	}
}

func TestACallThatCannotBeWrittenIsNotAccepted(t *testing.T) {
	dir, ledger := t.TempDir(), newLedger()
	client := spooled(t, dir, newReceiver(t, nil).URL, ledger)
	must(t, os.RemoveAll(dir))
	var failed *SpoolError
	if err := client.Track(track("m1")); !errors.As(err, &failed) || failed.Op != "write" {
		t.Errorf("the call returned %v", err)
	}
	must(t, os.Mkdir(dir, 0o700))
	must(t, client.Track(track("m2")))
	must(t, client.Flush(context.Background()))
	if delivered, lost, _ := ledger.counts(); delivered != 1 || lost != 0 {
		t.Errorf("%d delivered, %d lost", delivered, lost)
	}
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	if _, err := NewWithConfig("wk", Config{Spool: &Spool{Dir: filepath.Join(dir, "file", "x")}}); Code(err) != "spool_failed" {
		t.Errorf("a folder that cannot be made: %v", err)
	}
}

// A disk that fails is played by a file that is closed behind the spool's back.
func TestAFailedWriteLeavesTheSpoolWhole(t *testing.T) {
	dir := t.TempDir()
	s, err := openSpool(Spool{Dir: dir, MaxBytes: leastSpoolBytes}, (&logged{}).logger())
	must(t, err)
	must(t, s.add([]byte(`{"n":1}`)))
	s.writer.Close()
	if err := s.add([]byte(`{"n":2}`)); Code(err) != "spool_failed" {
		t.Errorf("the write returned %v", err)
	}
	must(t, s.add([]byte(`{"n":3}`)))
	if s.waiting() != 2 {
		t.Errorf("%d calls wait", s.waiting())
	}
	must(t, s.close())
	again, err := openSpool(Spool{Dir: dir, MaxBytes: leastSpoolBytes}, (&logged{}).logger())
	must(t, err)
	defer again.close()
	if out := again.take(10, largestBatch); len(out.bodies) != 2 || string(out.bodies[1]) != `{"n":3}` || out.lost != 0 {
		t.Errorf("%d calls and %d losses are left", len(out.bodies), out.lost)
	}
}

func TestBatchesAreForgottenInWhateverOrderTheyAreAnswered(t *testing.T) {
	dir := t.TempDir()
	open := func() *spool {
		s, err := openSpool(Spool{Dir: dir, MaxBytes: leastSpoolBytes}, (&logged{}).logger())
		must(t, err)
		return s
	}
	s := open()
	for n := 0; n < 6; n++ {
		must(t, s.add([]byte(fmt.Sprintf(`{"n":%d}`, n))))
	}
	s.take(2, 1000)
	second, third := s.take(2, 1000), s.take(1, 1000)
	s.forget(second)
	s.forget(third)
	must(t, s.close())
	// The first was not answered for: it and all behind it are sent again.
	s = open()
	if s.waiting() != 6 {
		t.Errorf("%d calls wait, not 6", s.waiting())
	}
	first, second := s.take(2, 1000), s.take(2, 1000)
	s.forget(second)
	s.forget(first)
	must(t, s.close())
	s = open()
	defer s.close()
	if out := s.take(10, 1000); len(out.bodies) != 2 || string(out.bodies[0]) != `{"n":4}` {
		t.Errorf("%d calls wait", len(out.bodies))
	}
}

func TestFlushHearsOfACloseThatLeavesCallsInTheSpool(t *testing.T) {
	ledger := newLedger()
	client := newClient(t, Config{
		Endpoint: nowhere, FlushAt: 1, Uploads: 1, Spool: &Spool{Dir: t.TempDir()}, CloseTimeout: time.Millisecond,
		OnFailure: ledger.failure,
	})
	for n := 0; n < 5; n++ {
		must(t, client.Track(track(fmt.Sprint("m", n))))
	}
	flushed := make(chan error)
	go func() { flushed <- client.Flush(context.Background()) }()
	must(t, client.Close())
	if err := <-flushed; err != ErrClosed {
		t.Errorf("Flush returned %v", err)
	}
	if err := client.Flush(context.Background()); err != ErrClosed {
		t.Errorf("after Close, Flush returned %v", err)
	}
	if _, _, reports := ledger.counts(); reports != 0 {
		t.Errorf("%d calls were reported", reports)
	}
}

func TestWithSyncCallsAreOnTheDisk(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := newClient(t, Config{Endpoint: receiver.URL, Spool: &Spool{Dir: t.TempDir(), Sync: true}})
	must(t, client.Track(track("m1")))
	must(t, client.Flush(context.Background()))
	if sent := len(receiver.items()); sent != 1 {
		t.Errorf("%d calls were sent", sent)
	}
}

// fillSpool is the program that is killed: it makes calls as fast as it can and prints the id of each that was accepted.
func fillSpool(dir, endpoint string) {
	client, err := NewWithConfig("wk", Config{Endpoint: endpoint, Spool: &Spool{Dir: dir}, Retry: quick})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	out := bufio.NewWriter(os.Stdout)
	for n := 0; ; n++ {
		id := fmt.Sprintf("m%d-%d", os.Getpid(), n)
		if err := client.Track(track(id)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Fprintln(out, id)
		out.Flush()
	}
}

// A process is killed three times in the middle of its work, while the server works half of the time.
func TestNothingAcceptedIsLostWhenTheProcessIsKilled(t *testing.T) {
	dir := t.TempDir()
	receiver := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%2 == 0 {
			w.WriteHeader(503)
		}
	})
	accepted := map[string]bool{}
	for run := 0; run < 3; run++ {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "ANALYTICS_TEST_SPOOL="+dir, "ANALYTICS_TEST_ENDPOINT="+receiver.URL)
		stdout, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		lines := bufio.NewScanner(stdout)
		for n := 0; n < 2000 && lines.Scan(); n++ {
			accepted[lines.Text()] = true
		}
		must(t, child.Process.Kill())
		for lines.Scan() { // What it said before it died counts as well.
			if strings.Count(lines.Text(), "-") == 1 {
				accepted[lines.Text()] = true
			}
		}
		child.Wait()
	}
	if len(accepted) < 6000 {
		t.Fatalf("only %d calls were accepted", len(accepted))
	}
	client := newClient(t, Config{Endpoint: receiver.URL, FlushAt: 500, Spool: &Spool{Dir: dir}})
	must(t, client.Flush(context.Background()))
	answered := map[string]bool{}
	for n, request := range receiver.requests() {
		for _, id := range request.ids() {
			answered[id] = answered[id] || n%2 == 1
		}
	}
	for id := range accepted {
		if !answered[id] {
			t.Fatalf("%s was accepted and never delivered", id)
		}
	}
}
