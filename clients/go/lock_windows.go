package analytics

import (
	"os"
	"path/filepath"
	"syscall"
)

const sharingViolation = syscall.Errno(32)

// lockFolder makes the folder this client's own until the file is closed, or the process ends however it ends: a file
// opened without sharing cannot be opened a second time.
func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err == sharingViolation {
		return nil, errLocked
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(handle), path), nil
}
