package analytics

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails if a goroutine of a client outlives the tests: all of them close their clients. It is also the program that the
// tests of the spool start and kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("ANALYTICS_TEST_SPOOL"); dir != "" {
		fillSpool(dir, os.Getenv("ANALYTICS_TEST_ENDPOINT"))
		return
	}
	time.Local = time.FixedZone("somewhere", 5*3600+1800)
	code := m.Run()
	limit := time.Now().Add(5 * time.Second)
	for left := goroutines(); left != ""; left = goroutines() {
		if time.Now().After(limit) {
			fmt.Println("goroutines of a client are left:\n" + left)
			code = 1
			break
		}
		runtime.Gosched()
	}
	os.Exit(code)
}

// goroutines are the stacks of those that run code of a client, and of connections a client keeps.
func goroutines() string {
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	var left []string
	for _, stack := range strings.Split(string(text), "\n\n") {
		if strings.Contains(stack, "(*dispatcher)") || strings.Contains(stack, "(*persistConn)") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
