package analytics

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every program in the documents is built by the compiler and run against a server: the quick start, the migration page's
// program for the historical version 2, and the rest.
func TestProgramsInTheDocumentsRun(t *testing.T) {
	here, err := os.Getwd()
	must(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```")
	for _, c := range []struct {
		page  string
		calls []int
	}{
		{"README.md", []int{1, 1, 1}},
		{"MIGRATION.md", []int{5}},
	} {
		text, err := os.ReadFile(c.page)
		must(t, err)
		programs := blocks.FindAllSubmatch(text, -1)
		if len(programs) != len(c.calls) {
			t.Fatalf("%s has %d programs, not %d", c.page, len(programs), len(c.calls))
		}
		for n, program := range programs {
			n, source := n, program[1]
			t.Run(fmt.Sprint(c.page, " ", n+1), func(t *testing.T) {
				receiver := newReceiver(t, nil)
				runProgram(t, here, retarget(source, receiver.URL))
				if sent := len(receiver.items()); sent != c.calls[n] {
					t.Errorf("it sent %d calls, not %d", sent, c.calls[n])
				}
			})
		}
	}
}

// retarget points a program at the server of the test; nothing else of its text changes.
func retarget(source []byte, url string) []byte {
	source = bytes.ReplaceAll(source, []byte(`"http://localhost:8080"`), []byte(fmt.Sprintf("%q", url)))
	source = bytes.ReplaceAll(source, []byte(`analytics.New("dev")`),
		[]byte(fmt.Sprintf(`func() *analytics.Client { c := analytics.New("dev"); c.Endpoint = %q; return c }()`, url)))
	return bytes.ReplaceAll(source, []byte(`analytics.Config{`), []byte(fmt.Sprintf(`analytics.Config{Endpoint: %q, `, url)))
}

func runProgram(t *testing.T, module string, source []byte) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), source, 0o600))
	path := "github.com/millrace/millrace/clients/go/v2"
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(strings.Join([]string{
		"module example", "go 1.19", "require " + path + " v2.0.0", "replace " + path + " => " + module,
	}, "\n")), 0o600))
	temporary := filepath.Join(dir, "tmp") // For the program's own files, which go away with the test.
	must(t, os.Mkdir(temporary, 0o700))
	run := exec.Command("go", "run", ".")
	run.Dir = dir
	run.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "TMPDIR="+temporary)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, source)
	}
}
