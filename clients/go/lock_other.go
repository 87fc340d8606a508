//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package analytics

import (
	"os"
	"path/filepath"
)

// lockFolder locks nothing: these systems have no lock that ends with its process. Only one client may use the folder.
func lockFolder(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
}
