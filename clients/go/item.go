package analytics

import (
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"
)

// kind is a type of call, as written on the wire.
type kind string

const (
	kindIdentify kind = "identify"
	kindTrack    kind = "track"
	kindPage     kind = "page"
	kindScreen   kind = "screen"
	kindGroup    kind = "group"
	kindAlias    kind = "alias"
)

// longestMessageId in characters. The server would replace a longer one, and a second try of the call would then not be
// recognised as the same call.
const longestMessageId = 100

// item is one call as it stands in a batch. All kinds share it; fields a kind does not have stay empty and are left out.
// Its maps are the caller's own, so nothing may write to them.
type item struct {
	Type         kind                   `json:"type"`
	MessageId    string                 `json:"messageId"`
	Timestamp    string                 `json:"timestamp"`
	UserId       string                 `json:"userId,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	PreviousId   string                 `json:"previousId,omitempty"`
	GroupId      string                 `json:"groupId,omitempty"`
	Event        string                 `json:"event,omitempty"`
	Category     string                 `json:"category,omitempty"`
	Name         string                 `json:"name,omitempty"`
	Properties   map[string]interface{} `json:"properties,omitempty"`
	Traits       map[string]interface{} `json:"traits,omitempty"`
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
}

// read fills the item from what a method was given: a message, a pointer to one, or a map.
func (i *item) read(k kind, message interface{}) error {
	i.Type = k
	if call, ok := message.(Call); ok {
		return i.readCall(call)
	}
	fields, ok := message.(map[string]interface{})
	if !ok {
		if fields, ok = asObject(message); !ok {
			return notAMessage(k, message)
		}
	}
	if fields == nil {
		return notAMessage(k, message)
	}
	return i.readMap(fields)
}

func (i *item) readCall(call Call) error {
	if isNil(call) || call.kind() != i.Type {
		return notAMessage(i.Type, call)
	}
	call.fill(i)
	return nil
}

func notAMessage(k kind, message interface{}) error {
	return &CallError{
		Code:    "not_an_object",
		Message: fmt.Sprintf("You must pass a message or a map to '%s', not %s.", k, describe(message)),
	}
}

// isNil finds a nil pointer to a message, whose methods must not be called.
func isNil(call Call) bool {
	v := reflect.ValueOf(call)
	return v.Kind() == reflect.Ptr && v.IsNil()
}

func describe(value interface{}) string {
	if value == nil {
		return "nil"
	}
	if v := reflect.ValueOf(value); (v.Kind() == reflect.Ptr || v.Kind() == reflect.Map) && v.IsNil() {
		return "a nil " + v.Type().String()
	}
	return fmt.Sprintf("%T", value)
}

// longestId in UTF-16 code units.
const longestId = 1024

// checkId says why a text is no id. The server discards such a call, also where it answers its batch with 200.
func checkId(name, id string) error {
	if !utf8.ValidString(id) {
		return &CallError{Code: "id_not_unicode", Field: name, Message: fmt.Sprintf("The '%s' must be UTF-8.", name)}
	}
	if len(id) > longestId && codeUnits(id) > longestId {
		return &CallError{
			Code:    "id_too_long",
			Field:   name,
			Message: fmt.Sprintf("The '%s' must have at most %d UTF-16 code units.", name, longestId),
		}
	}
	return nil
}

// codeUnits of UTF-16, by which the server counts.
func codeUnits(text string) int {
	units := 0
	for _, r := range text {
		units++
		if r >= 0x10000 {
			units++
		}
	}
	return units
}

// check says what is missing or no id. The texts are those programs for version 2 may know.
func (i *item) check() error {
	ids := [...]struct{ name, id string }{
		{"userId", i.UserId}, {"anonymousId", i.AnonymousId}, {"previousId", i.PreviousId}, {"groupId", i.GroupId},
	}
	for _, one := range ids {
		if err := checkId(one.name, one.id); err != nil {
			return err
		}
	}
	if i.Type == kindAlias {
		if i.UserId == "" {
			return &CallError{Code: "user_id_missing", Field: "userId", Message: "You must pass a 'userId'."}
		}
		if i.PreviousId == "" {
			return &CallError{Code: "previous_id_missing", Field: "previousId", Message: "You must pass a 'previousId'."}
		}
		return nil
	}
	if i.Type == kindGroup && i.GroupId == "" {
		return &CallError{Code: "group_id_missing", Field: "groupId", Message: "You must pass a 'groupId'."}
	}
	if i.Type == kindTrack && i.Event == "" {
		return &CallError{Code: "event_not_defined", Field: "event", Message: "You must pass 'event'."}
	}
	if i.UserId == "" && i.AnonymousId == "" {
		return &CallError{
			Code:    "no_user_anon_id",
			Field:   "userId",
			Message: "You must pass either an 'anonymousId' or 'userId'.",
		}
	}
	return nil
}

// stamp gives the call an id and a time where it has none, and writes the caller's time the one way we send times.
func (i *item) stamp(now time.Time) error {
	if i.MessageId != "" {
		if id := i.MessageId; codeUnits(id) > longestMessageId || !utf8.ValidString(id) {
			return &CallError{
				Code:  "invalid_message_id",
				Field: "messageId",
				Message: fmt.Sprintf("The 'messageId' must be UTF-8 and have at most %d UTF-16 code units.",
					longestMessageId),
			}
		}
	}
	if i.Timestamp != "" {
		at, ok := parseTime(i.Timestamp)
		if !ok {
			return invalidTimestamp(i.Timestamp)
		}
		i.Timestamp = formatTime(at)
	}
	if i.MessageId != "" && i.Timestamp != "" {
		return nil
	}
	// One text holds both, which saves an allocation for each call.
	var text [idLength + timeLength]byte
	if err := writeMessageId(text[:idLength], now); err != nil {
		return &CallError{Code: "unencodable", Field: "messageId", Message: "No random number for the 'messageId'.", Err: err}
	}
	both := string(appendTime(text[:idLength], now))
	if i.MessageId == "" {
		i.MessageId = both[:idLength]
	}
	if i.Timestamp == "" {
		i.Timestamp = both[idLength:]
	}
	return nil
}

func invalidTimestamp(given interface{}) error {
	return &CallError{
		Code:    "invalid_timestamp",
		Field:   "timestamp",
		Message: fmt.Sprintf("The 'timestamp' must be a time in ISO 8601, not %q.", fmt.Sprint(given)),
	}
}

// addContext puts fields into the context that the call itself does not set. The caller's map stays as it is.
func (i *item) addContext(extra map[string]interface{}) {
	if len(extra) == 0 {
		return
	}
	merged := make(map[string]interface{}, len(i.Context)+len(extra))
	for name, value := range extra {
		merged[name] = value
	}
	for name, value := range i.Context {
		merged[name] = value
	}
	i.Context = merged
}
