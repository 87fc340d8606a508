package analytics

// memory is the store of a client without a spool. It counts a call until its batch is answered for, so that its bounds
// hold for everything the client keeps.
type memory struct {
	maxCalls, maxBytes int
	calls, bytes       int
	// queue[head:] waits, oldest first. What lies before head has been taken and is nil.
	queue [][]byte
	head  int
}

var _ store = (*memory)(nil)

func newMemory(maxCalls, maxBytes int) *memory {
	return &memory{maxCalls: maxCalls, maxBytes: maxBytes}
}

func (m *memory) fits(size int) bool {
	return m.calls < m.maxCalls && m.bytes+size <= m.maxBytes
}

func (m *memory) add(body []byte) error {
	m.queue = append(m.queue, body)
	m.calls++
	m.bytes += len(body)
	return nil
}

func (m *memory) take(calls, bytes int) *taken {
	size, count := 0, 0
	for _, body := range m.queue[m.head:] {
		// One comma goes with each.
		if size += len(body) + 1; count == calls || (count > 0 && size > bytes) {
			break
		}
		count++
	}
	return m.cut(count)
}

// drop makes room for one call. That it can only be one is what keeps the number of reports at a time low.
func (m *memory) drop() *taken {
	out := m.cut(min(1, m.waiting()))
	m.forget(out)
	return out
}

func (m *memory) cut(count int) *taken {
	out := &taken{bodies: append([][]byte(nil), m.queue[m.head:m.head+count]...)}
	for n := 0; n < count; n++ {
		m.queue[m.head+n] = nil
	}
	m.head += count
	// Moving the rest down once half is free keeps the array as small as what waits, at constant cost per call.
	if m.head > len(m.queue)/2 {
		rest := copy(m.queue, m.queue[m.head:])
		for n := rest; n < len(m.queue); n++ {
			m.queue[n] = nil
		}
		m.queue, m.head = m.queue[:rest], 0
	}
	return out
}

func (m *memory) forget(out *taken) {
	m.calls -= len(out.bodies)
	for _, body := range out.bodies {
		m.bytes -= len(body)
	}
}

func (m *memory) waiting() int { return len(m.queue) - m.head }

func (m *memory) close() error { return nil }

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}
