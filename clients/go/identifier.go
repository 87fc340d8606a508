package analytics

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// idLength is the length of a UUID as text.
const idLength = 36

// writeMessageId writes a UUID of version 7: 48 bits of milliseconds and 74 random ones, so that ids of one time lie
// together in an index. They come from the operating system for each call: no state could repeat in a copy of the process.
func writeMessageId(to []byte, now time.Time) error {
	var id [16]byte
	if _, err := rand.Read(id[6:]); err != nil {
		return err
	}
	ms := uint64(now.UnixMilli())
	for n := 5; n >= 0; n-- {
		id[n] = byte(ms)
		ms >>= 8
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	hex.Encode(to[0:8], id[0:4])
	hex.Encode(to[9:13], id[4:6])
	hex.Encode(to[14:18], id[6:8])
	hex.Encode(to[19:23], id[8:10])
	hex.Encode(to[24:36], id[10:16])
	to[8], to[13], to[18], to[23] = '-', '-', '-', '-'
	return nil
}
