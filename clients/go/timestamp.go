package analytics

import (
	"strings"
	"time"
)

// timeLayout is how every time is sent: ISO 8601, UTC, milliseconds. Years have four digits.
const timeLayout = "2006-01-02T15:04:05.000Z"

const timeLength = len(timeLayout)

// appendTime writes a time in timeLayout. Every call and every request needs one, and time.Format takes five times as long.
func appendTime(to []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	to = append(appendTwo(appendTwo(to, year/100), year%100), '-')
	to = append(appendTwo(to, int(month)), '-')
	to = append(appendTwo(to, day), 'T')
	to = append(appendTwo(to, hour), ':')
	to = append(appendTwo(to, minute), ':')
	to = append(appendTwo(to, second), '.')
	millis := t.Nanosecond() / 1e6
	return append(appendTwo(to, millis/10), byte('0'+millis%10), 'Z')
}

func appendTwo(to []byte, number int) []byte {
	return append(to, byte('0'+number/10), byte('0'+number%10))
}

func formatTime(t time.Time) string {
	return string(appendTime(make([]byte, 0, timeLength), t))
}

// longestTime bounds what is tried as a time.
const longestTime = 64

// otherLayouts are what people write beside RFC 3339: a blank for the T, no seconds, a zone without a colon or none at all
// (then it is UTC, whatever the zone of the machine), months and days of one digit. Fractions of a second need no layout:
// time.Parse takes them after the seconds.
var otherLayouts = func() []string {
	layouts := []string{"2006-1-2"}
	for _, separator := range []string{"T", " "} {
		for _, clock := range []string{"15:04:05", "15:04"} {
			for _, zone := range []string{"Z07:00", "Z0700", "Z07", ""} {
				layouts = append(layouts, "2006-1-2"+separator+clock+zone)
			}
		}
	}
	return layouts
}()

// parseTime reads a time in ISO 8601.
func parseTime(text string) (time.Time, bool) {
	if len(text) > longestTime {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		text = strings.ToUpper(strings.TrimSpace(text))
		for _, layout := range otherLayouts {
			if at, err = time.Parse(layout, text); err == nil {
				break
			}
		}
	}
	if err != nil {
		return time.Time{}, false
	}
	// An offset can move a time out of the years that four digits can write.
	year := at.UTC().Year()
	return at, year >= 0 && year <= 9999
}
