package analytics

import "os"

func (s *spool) take(calls, bytes int) *taken {
	out := &taken{lost: s.damaged}
	s.unread -= s.damaged
	s.damaged = 0
	for size := 0; len(out.bodies) < calls && s.unread > 0; {
		at := s.toRead()
		if at == nil {
			break
		}
		length, body := s.nextRecord(at, bytes-size-1, len(out.bodies) > 0)
		if length > 0 && body == nil {
			break // The next one has no room in this batch.
		}
		if body == nil {
			out.lost += at.unread
			s.skip(at)
			continue
		}
		out.bodies = append(out.bodies, body)
		size += len(body) + 1
		s.read.offset += recordHead + int64(len(body))
		s.unread--
		at.unread--
	}
	out.end = s.read
	s.out = append(s.out, out)
	return out
}

// toRead is the segment the next waiting call is in; the reader stands at it.
func (s *spool) toRead() *segment {
	for _, each := range s.segments {
		if each.number < s.read.segment || each.unread == 0 {
			continue
		}
		if each.number > s.read.segment {
			s.closeReader()
			s.read = position{each.number, segmentHead}
		}
		return each
	}
	return nil
}

// nextRecord reads the next call if it is not longer than room, or whatever its length if it need not fit. It returns its
// length without a body when it does not fit, and nothing when it cannot be read.
func (s *spool) nextRecord(at *segment, room int, mustFit bool) (length int, body []byte) {
	if s.reader == nil {
		reader, err := openSegment(s.dir, s.read)
		if err != nil {
			s.log.Printf("spool: %v", err)
			return 0, nil
		}
		s.reader = reader
	}
	if length = s.reader.nextLength(); mustFit && length > room {
		return length, nil
	}
	body, err := readRecord(s.reader.from)
	if err != nil {
		s.log.Printf("spool: %s: %v", segmentPath(s.dir, at.number), err)
		return 0, nil
	}
	return len(body), body
}

// skip gives up what is unread of a segment.
func (s *spool) skip(at *segment) {
	s.unread -= at.unread
	at.unread = 0
	s.read = position{at.number, at.size}
	s.closeReader()
}

func (s *spool) closeReader() {
	if s.reader != nil {
		s.reader.close()
		s.reader = nil
	}
}

// drop removes the oldest segment. Those of its calls that are on their way to the server stay on their way; they are only no
// longer protected against the death of the process.
func (s *spool) drop() *taken {
	out := &taken{}
	oldest := s.toRead()
	if oldest == nil || oldest == s.segments[len(s.segments)-1] {
		return out
	}
	for oldest.unread > 0 {
		_, body := s.nextRecord(oldest, 0, false)
		if body == nil {
			out.lost += oldest.unread
			break
		}
		out.bodies = append(out.bodies, body)
		oldest.unread--
		s.unread--
	}
	s.skip(oldest)
	out.end = s.read
	s.removeBefore(position{oldest.number + 1, 0})
	return out
}

// forget moves the cursor over everything that is answered for without a gap, and removes the segments behind it.
func (s *spool) forget(done *taken) {
	done.done = true
	passed := 0
	for passed < len(s.out) && s.out[passed].done {
		passed++
	}
	if passed == 0 {
		return
	}
	end := s.out[passed-1].end
	s.out = append([]*taken(nil), s.out[passed:]...)
	if s.cursor.at.before(end) {
		if err := s.cursor.move(end); err != nil {
			// Without it calls are sent a second time after a restart, which the server sees by their ids.
			s.log.Printf("spool: cursor: %v", err)
		}
	}
	s.removeBefore(end)
}

// removeBefore removes the segments that hold nothing from there on. The one being written to stays.
func (s *spool) removeBefore(end position) {
	for len(s.segments) > 0 {
		oldest := s.segments[0]
		over := end.segment > oldest.number || (end.segment == oldest.number && end.offset >= oldest.size)
		if writing := s.writer != nil && len(s.segments) == 1; !over || writing {
			return
		}
		if s.read.segment == oldest.number {
			s.closeReader() // Some systems do not remove a file that is open.
		}
		if err := os.Remove(segmentPath(s.dir, oldest.number)); err != nil {
			s.log.Printf("spool: %v", err)
		}
		s.used -= oldest.size
		s.segments = s.segments[1:]
	}
}
