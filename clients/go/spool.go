package analytics

import (
	"errors"
	"log"
	"os"
	"sort"
)

var errLocked = errors.New("another client uses the folder")

// spool is the store on disk: a folder of segments, a cursor, and a lock. A call is written before its method returns and read
// back when it is its turn, so memory holds only the batches under way, whatever the length of an outage.
//
//	0000000000000007.calls   ◀─ cursor: all before it is answered for
//	0000000000000008.calls   ◀─ read: all before it is handed out
//	0000000000000009.calls   ◀─ written to, until it is full
type spool struct {
	dir      string
	maxBytes int64
	full     int64 // size from which a new segment is begun
	sync     bool
	log      *log.Logger
	lock     *os.File
	cursor   *cursor
	segments []*segment // oldest first; the last is written to if writer is not nil
	writer   *os.File
	record   []byte // buffer for what is written
	read     position
	reader   *segmentReader // of the segment of read, or nil
	out      []*taken       // handed out and not forgotten, oldest first
	used     int64
	unread   int
	// damaged is the number of segments found damaged and not reported yet. How many calls were lost in one is unknown: it
	// counts as one unread call.
	damaged int
}

var _ store = (*spool)(nil)

// openSpool opens or makes a spool; what an earlier client left in it waits. Errors are *SpoolError.
func openSpool(options Spool, logger *log.Logger) (*spool, error) {
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, &SpoolError{"open", err}
	}
	lock, err := lockFolder(options.Dir)
	if err != nil {
		return nil, &SpoolError{"lock", err}
	}
	s := &spool{
		dir:      options.Dir,
		maxBytes: options.MaxBytes,
		full:     options.MaxBytes / 16,
		sync:     options.Sync,
		log:      logger,
		lock:     lock,
	}
	if s.full > 4<<20 {
		s.full = 4 << 20
	}
	if err := s.load(); err != nil {
		s.release()
		return nil, &SpoolError{"open", err}
	}
	return s, nil
}

// load finds the segments and how many calls wait in them.
func (s *spool) load() error {
	var err error
	if s.cursor, err = openCursor(s.dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var numbers []uint64
	for _, entry := range entries {
		if number, ok := segmentNumber(entry.Name()); ok {
			numbers = append(numbers, number)
		}
	}
	sort.Slice(numbers, func(a, b int) bool { return numbers[a] < numbers[b] })
	for _, number := range numbers {
		if err := s.loadSegment(number); err != nil {
			return err
		}
	}
	s.read = s.cursor.at
	if len(s.segments) > 0 && s.read.segment < s.segments[0].number {
		s.read = position{s.segments[0].number, segmentHead}
	}
	return nil
}

func (s *spool) loadSegment(number uint64) error {
	from := int64(0)
	if number < s.cursor.at.segment {
		return os.Remove(segmentPath(s.dir, number))
	}
	if number == s.cursor.at.segment {
		from = s.cursor.at.offset
	}
	found, err := scanSegment(s.dir, number, from)
	switch {
	case errors.Is(err, errTorn):
		s.log.Printf("spool: %s: %v", segmentPath(s.dir, number), err)
	case errors.Is(err, errDamaged):
		s.log.Printf("spool: %s: %v; what follows in this file is lost", segmentPath(s.dir, number), err)
		s.damaged++
		s.unread++
	case err != nil:
		return err
	}
	if found.unread == 0 {
		return os.Remove(segmentPath(s.dir, number))
	}
	s.segments = append(s.segments, found)
	s.used += found.size
	s.unread += found.unread
	return nil
}

func (s *spool) fits(size int) bool {
	return s.used+segmentHead+recordHead+int64(size) <= s.maxBytes
}

func (s *spool) add(body []byte) error {
	if err := s.makeWriter(len(body)); err != nil {
		return &SpoolError{"write", err}
	}
	last := s.segments[len(s.segments)-1]
	s.record = appendRecord(s.record[:0], body)
	_, err := s.writer.WriteAt(s.record, last.size)
	if err == nil && s.sync {
		err = s.writer.Sync()
	}
	if err != nil {
		if s.writer.Truncate(last.size) != nil {
			s.closeWriter() // What is left of the call stays behind as a torn end.
		}
		return &SpoolError{"write", err}
	}
	last.size += int64(len(s.record))
	last.unread++
	s.used += int64(len(s.record))
	s.unread++
	return nil
}

// makeWriter begins a new segment if there is none to write to or the last one is full.
func (s *spool) makeWriter(size int) error {
	if s.writer != nil {
		if s.segments[len(s.segments)-1].size+recordHead+int64(size) <= s.full {
			return nil
		}
		s.closeWriter()
	}
	number := s.cursor.at.segment
	if s.read.segment > number {
		number = s.read.segment
	}
	if count := len(s.segments); count > 0 && s.segments[count-1].number > number {
		number = s.segments[count-1].number
	}
	number++
	file, err := os.OpenFile(segmentPath(s.dir, number), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = file.WriteAt([]byte(segmentMagic), 0)
	}
	if err == nil && s.sync {
		err = syncFolder(s.dir)
	}
	if err != nil {
		if file != nil {
			file.Close()
			os.Remove(file.Name())
		}
		return err
	}
	s.writer = file
	s.segments = append(s.segments, &segment{number: number, size: segmentHead})
	s.used += segmentHead
	return nil
}

// syncFolder makes the names of the files in it durable.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func (s *spool) waiting() int { return s.unread }

// close leaves nothing behind but the cursor if everything is answered for.
func (s *spool) close() error {
	if s.unread == 0 && len(s.out) == 0 {
		s.closeWriter()
		s.removeBefore(position{segment: ^uint64(0)})
	}
	s.release()
	return nil
}

func (s *spool) closeWriter() {
	if s.writer != nil {
		s.writer.Close()
		s.writer = nil
	}
}

// release closes every file; the lock goes last.
func (s *spool) release() {
	s.closeReader()
	s.closeWriter()
	if s.cursor != nil {
		s.cursor.file.Close()
	}
	s.lock.Close()
}
