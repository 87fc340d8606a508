//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package analytics

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// lockFolder makes the folder this client's own until the file is closed, or the process ends however it ends.
func lockFolder(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errLocked
		}
		return nil, err
	}
	return file, nil
}
