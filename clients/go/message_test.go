package analytics

import (
	"encoding/json"
	"testing"
)

const (
	past  = "2015-02-02T00:30:08.276Z"
	other = "2001-02-03T04:05:06.789Z"
)

func TestEveryMessageHasATimestampOfItsOwnThatCountsBeforeTheEmbeddedOne(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := newClient(t, Config{Endpoint: receiver.URL})
	embedded := Message{Timestamp: other}
	must(t, client.Identify(Identify{UserId: "u1", Timestamp: past}))
	must(t, client.Track(Track{UserId: "u1", Event: "E", Timestamp: past, Message: embedded}))
	must(t, client.Page(&Page{UserId: "u1", Timestamp: past}))
	must(t, client.Screen(Screen{UserId: "u1", Timestamp: past, Message: embedded}))
	must(t, client.Group(Group{UserId: "u1", GroupId: "g1", Timestamp: past}))
	must(t, client.Alias(Alias{UserId: "u1", PreviousId: "a1", Timestamp: past, Message: embedded}))
	must(t, client.Close())
	checkTimes(t, receiver, 6, past)
}

// Programs for version 2 have no other.
func TestTheTimestampOfTheEmbeddedMessageStillCounts(t *testing.T) {
	receiver := newReceiver(t, nil)
	client := newClient(t, Config{Endpoint: receiver.URL})
	embedded := Message{Timestamp: past}
	must(t, client.Identify(&Identify{UserId: "u1", Message: embedded}))
	must(t, client.Track(&Track{UserId: "u1", Event: "E", Message: embedded}))
	must(t, client.Page(&Page{UserId: "u1", Message: embedded}))
	must(t, client.Screen(&Screen{UserId: "u1", Message: embedded}))
	must(t, client.Group(&Group{UserId: "u1", GroupId: "g1", Message: embedded}))
	must(t, client.Alias(&Alias{UserId: "u1", PreviousId: "a1", Message: embedded}))
	page := &Page{UserId: "u1"}
	page.Timestamp = past // The promoted field, before there was another.
	must(t, client.Page(page))
	page = &Page{UserId: "u1"}
	page.Message.Timestamp = past
	must(t, client.Page(page))
	must(t, client.Close())
	checkTimes(t, receiver, 8, past)
}

func TestAMessageReadFromJSONKeepsItsTimestamp(t *testing.T) {
	var page Page
	must(t, json.Unmarshal([]byte(`{"userId":"u1","timestamp":"`+past+`"}`), &page))
	if page.Timestamp != past {
		t.Errorf("the timestamp is %q", page.Timestamp)
	}
	text, err := json.Marshal(page)
	must(t, err)
	if string(text) != `{"userId":"u1","timestamp":"`+past+`"}` {
		t.Errorf("the JSON is %s", text)
	}
}

func TestATimestampThatIsNoTimeIsAnErrorInEitherPlace(t *testing.T) {
	client := newClient(t, Config{})
	for _, page := range []Page{
		{UserId: "u1", Timestamp: "yesterday"},
		{UserId: "u1", Timestamp: "yesterday", Message: Message{Timestamp: past}},
		{UserId: "u1", Message: Message{Timestamp: "yesterday"}},
	} {
		if err := client.Page(page); Code(err) != "invalid_timestamp" {
			t.Errorf("the call returned %v", err)
		}
	}
	must(t, client.Close())
}

func checkTimes(t *testing.T, receiver *receiver, calls int, want string) {
	t.Helper()
	items := receiver.items()
	if len(items) != calls {
		t.Errorf("%d calls were sent, not %d", len(items), calls)
	}
	for _, item := range items {
		var got struct{ Type, Timestamp string }
		must(t, json.Unmarshal(item, &got))
		if got.Timestamp != want {
			t.Errorf("the timestamp of the %s is %s, not %s", got.Type, got.Timestamp, want)
		}
	}
}
