package analytics

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// readMap fills the item from a map with the keys of the wire ("userId", "event", …). A nil is as good as no key, a number
// is taken as an id, and a key the kind does not have is an error, because it would be lost without a word otherwise.
func (i *item) readMap(fields map[string]interface{}) error {
	for name, value := range fields {
		if value == nil {
			continue
		}
		if err := i.readField(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (i *item) readField(name string, value interface{}) error {
	switch name {
	case "type", "sentAt":
		return nil // As in Message: the method and the batch decide.
	case "timestamp":
		return i.readTimestamp(value)
	case "messageId":
		return readId(&i.MessageId, name, value)
	case "userId":
		return readId(&i.UserId, name, value)
	case "context":
		return readObject(&i.Context, name, value)
	case "integrations":
		return readObject(&i.Integrations, name, value)
	}
	if i.Type == kindAlias {
		if name == "previousId" {
			return readId(&i.PreviousId, name, value)
		}
		return unknownField(i.Type, name)
	}
	if name == "anonymousId" {
		return readId(&i.AnonymousId, name, value)
	}
	return i.readOwnField(name, value)
}

// readOwnField reads what only some kinds have.
func (i *item) readOwnField(name string, value interface{}) error {
	viewed := i.Type == kindPage || i.Type == kindScreen
	switch {
	case name == "event" && i.Type == kindTrack:
		return readText(&i.Event, name, value)
	case name == "properties" && i.Properties == nil && (i.Type == kindTrack || viewed):
		return readObject(&i.Properties, name, value)
	case name == "traits" && (i.Type == kindIdentify || i.Type == kindGroup):
		return readObject(&i.Traits, name, value)
	case name == "traits" && i.Properties == nil && i.Type == kindPage:
		// The traits of a page are its properties; with both in one map there is no telling which are meant.
		return readObject(&i.Properties, name, value)
	case name == "groupId" && i.Type == kindGroup:
		return readId(&i.GroupId, name, value)
	case name == "category" && viewed:
		return readText(&i.Category, name, value)
	case name == "name" && viewed:
		return readText(&i.Name, name, value)
	}
	return unknownField(i.Type, name)
}

func unknownField(k kind, name string) error {
	return &CallError{Code: "unknown_field", Field: name, Message: fmt.Sprintf("A '%s' call has no field '%s'.", k, name)}
}

func (i *item) readTimestamp(value interface{}) error {
	switch at := value.(type) {
	case string:
		i.Timestamp = at
		return nil
	case time.Time:
		if year := at.UTC().Year(); year < 0 || year > 9999 {
			return invalidTimestamp(at)
		}
		i.Timestamp = formatTime(at)
		return nil
	}
	return invalidTimestamp(value)
}

// readId takes a text, or an integer as its decimal digits: a database often has numbers for ids.
func readId(to *string, name string, value interface{}) error {
	if number, ok := value.(json.Number); ok {
		*to = number.String()
		return nil
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		*to = v.String()
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		*to = strconv.FormatInt(v.Int(), 10)
		return nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		*to = strconv.FormatUint(v.Uint(), 10)
		return nil
	case reflect.Float32, reflect.Float64:
		// A number as encoding/json reads it. Beyond 2^53 it loses digits.
		if f := v.Float(); f == float64(int64(f)) && f >= -1<<53 && f <= 1<<53 {
			*to = strconv.FormatInt(int64(f), 10)
			return nil
		}
	}
	return wrongType("id_not_string", name, "a text or an integer", value)
}

func readText(to *string, name string, value interface{}) error {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.String {
		return wrongType(name+"_not_string", name, "a text", value)
	}
	*to = v.String()
	return nil
}

func readObject(to *map[string]interface{}, name string, value interface{}) error {
	object, ok := asObject(value)
	if !ok {
		return wrongType(name+"_not_object", name, "a map with texts as keys", value)
	}
	*to = object
	return nil
}

func wrongType(code, name, wanted string, value interface{}) error {
	return &CallError{
		Code:    code,
		Field:   name,
		Message: fmt.Sprintf("The '%s' must be %s, not %s.", name, wanted, strings.TrimPrefix(describe(value), "*")),
	}
}

// asObject takes any map whose keys are texts; one that is not map[string]interface{} itself is copied.
func asObject(value interface{}) (map[string]interface{}, bool) {
	if object, ok := value.(map[string]interface{}); ok {
		return object, true
	}
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Map || v.Type().Key().Kind() != reflect.String {
		return nil, false
	}
	if v.IsNil() {
		return nil, true
	}
	object := make(map[string]interface{}, v.Len())
	for each := v.MapRange(); each.Next(); {
		object[each.Key().String()] = each.Value().Interface()
	}
	return object, true
}
