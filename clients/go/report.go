package analytics

import "encoding/json"

// Report says which call a callback is about.
type Report struct {
	// Type of the call: identify, track, page, screen, group or alias.
	Type string
	// MessageId of the call, the one it was given or the one the client made.
	MessageId string
	// Tries is how often its batch was sent.
	Tries int
	// Body is the JSON of the call as it was, or would have been, sent. It must not be changed.
	Body json.RawMessage
}

// newReport reads back what the call says of itself, since all that is kept of a call, in memory or on disk, is its JSON.
func newReport(body []byte, tries int) Report {
	var head struct {
		Type      string `json:"type"`
		MessageId string `json:"messageId"`
	}
	// A damaged call of a spool cannot be read, and is reported without its names.
	_ = json.Unmarshal(body, &head)
	return Report{Type: head.Type, MessageId: head.MessageId, Tries: tries, Body: body}
}
