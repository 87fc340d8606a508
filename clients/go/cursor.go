package analytics

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
)

// cursor is the file that says up to where the calls of a spool are answered for. It is written in place: 20 bytes in one write
// are there wholly or not at all when the process dies. Torn by a power failure it counts as none; then calls
// are sent a second time, and the server knows their ids.
type cursor struct {
	file *os.File
	at   position
}

const cursorLength = 20

func openCursor(dir string) (*cursor, error) {
	file, err := os.OpenFile(filepath.Join(dir, "cursor"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	c := &cursor{file: file}
	var text [cursorLength]byte
	if n, _ := file.ReadAt(text[:], 0); n == cursorLength &&
		crc32.Checksum(text[:16], checksums) == binary.LittleEndian.Uint32(text[16:]) {
		c.at = position{
			segment: binary.LittleEndian.Uint64(text[0:8]),
			offset:  int64(binary.LittleEndian.Uint64(text[8:16])),
		}
	}
	return c, nil
}

func (c *cursor) move(to position) error {
	var text [cursorLength]byte
	binary.LittleEndian.PutUint64(text[0:8], to.segment)
	binary.LittleEndian.PutUint64(text[8:16], uint64(to.offset))
	binary.LittleEndian.PutUint32(text[16:], crc32.Checksum(text[:16], checksums))
	c.at = to
	_, err := c.file.WriteAt(text[:], 0)
	return err
}
