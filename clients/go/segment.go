package analytics

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A segment is one file of a spool: eight bytes that say what it is, then calls, each behind eight bytes of its own: the length
// of its JSON and a checksum of it, both 32 bits, little-endian. Segments are only ever appended to, and only by the
// process that made them, so a torn end can only be that of a call that was never accepted.

const (
	segmentMagic  = "MLRSPL01"
	segmentHead   = int64(len(segmentMagic))
	recordHead    = 8
	segmentSuffix = ".calls"
)

var checksums = crc32.MakeTable(crc32.Castagnoli)

type segment struct {
	number uint64
	size   int64 // bytes with whole calls, the head included
	// unread is the number of calls not handed out.
	unread int
}

// position is a place between two calls.
type position struct {
	segment uint64
	offset  int64
}

func (p position) before(other position) bool {
	return p.segment < other.segment || (p.segment == other.segment && p.offset < other.offset)
}

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016d%s", number, segmentSuffix))
}

// segmentNumber reads the number from a name; ok is false for a file that is no segment.
func segmentNumber(name string) (number uint64, ok bool) {
	digits := strings.TrimSuffix(name, segmentSuffix)
	if digits == name {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}

// appendRecord writes a call as it stands in a segment.
func appendRecord(to, body []byte) []byte {
	var head [recordHead]byte
	binary.LittleEndian.PutUint32(head[0:4], uint32(len(body)))
	binary.LittleEndian.PutUint32(head[4:8], crc32.Checksum(body, checksums))
	return append(append(to, head[:]...), body...)
}

var (
	errTorn    = errors.New("its last call was not written to the end")
	errDamaged = errors.New("a checksum or a length is wrong")
)

// readRecord reads the next call. io.EOF is the end, errTorn an end in the middle of a call.
func readRecord(from *bufio.Reader) ([]byte, error) {
	var head [recordHead]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, torn(err)
	}
	length := binary.LittleEndian.Uint32(head[0:4])
	if length == 0 || length > largestCall {
		return nil, errDamaged
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(from, body); err != nil {
		if err == io.EOF {
			err = errTorn
		}
		return nil, torn(err)
	}
	if crc32.Checksum(body, checksums) != binary.LittleEndian.Uint32(head[4:8]) {
		return nil, errDamaged
	}
	return body, nil
}

func torn(err error) error {
	if err == io.ErrUnexpectedEOF {
		return errTorn
	}
	return err
}

// scanSegment counts the calls of a segment from a place on. size is where the last whole one ends; err is nil or why it ends
// there.
func scanSegment(dir string, number uint64, from int64) (found *segment, err error) {
	found = &segment{number: number, size: from}
	file, err := os.Open(segmentPath(dir, number))
	if err != nil {
		return found, err
	}
	defer file.Close()
	if from == 0 {
		magic := make([]byte, segmentHead)
		if _, err := io.ReadFull(file, magic); err == io.EOF {
			return found, errTorn // Its process ended right after making the file.
		} else if err != nil {
			return found, torn(err)
		}
		if string(magic) != segmentMagic {
			return found, errDamaged
		}
		found.size = segmentHead
	} else if _, err := file.Seek(from, io.SeekStart); err != nil {
		return found, err
	}
	for reader := bufio.NewReaderSize(file, 64*1024); ; {
		body, err := readRecord(reader)
		if err == io.EOF {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		found.size += recordHead + int64(len(body))
		found.unread++
	}
}

// segmentReader reads calls from one segment, while others are appended to it.
type segmentReader struct {
	file *os.File
	from *bufio.Reader
}

func openSegment(dir string, at position) (*segmentReader, error) {
	file, err := os.Open(segmentPath(dir, at.segment))
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(at.offset, io.SeekStart); err != nil {
		file.Close()
		return nil, err
	}
	return &segmentReader{file: file, from: bufio.NewReaderSize(file, 64*1024)}, nil
}

// nextLength is the length of the JSON of the next call, 0 if it cannot be read. There must be a next call.
func (r *segmentReader) nextLength() int {
	head, err := r.from.Peek(recordHead)
	if err != nil {
		return 0
	}
	return int(binary.LittleEndian.Uint32(head[0:4]))
}

func (r *segmentReader) close() {
	r.file.Close()
}
