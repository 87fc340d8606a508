package analytics

// Message holds the fields every call can have. It is embedded in the messages:
//
//	analytics.Track{
//		Message: analytics.Message{MessageId: "order-17"},
//		UserId:  "u1",
//		Event:   "Signed Up",
//	}
//
// Each message also has a Timestamp of its own, which is easier to write and counts where both are set.
//
// The library never writes to it. Reusing one value for several calls is safe: each call gets an id and a time of its own.
type Message struct {
	// Type is ignored: the method decides.
	Type string `json:"type,omitempty"`
	// MessageId identifies the call to the server, which delivers two calls with one id only once within 24 hours.
	// At most 100 characters; when empty, each call gets a new one.
	MessageId string `json:"messageId,omitempty"`
	// Timestamp is when it happened, in ISO 8601, for data from the past. When empty, it is the time of the call.
	// It is sent in UTC with milliseconds.
	Timestamp string `json:"timestamp,omitempty"`
	// SentAt is ignored: the batch carries the time it is sent.
	SentAt string `json:"sentAt,omitempty"`
}

// Identify ties a user to traits. One of UserId and AnonymousId is required.
type Identify struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Traits       map[string]interface{} `json:"traits,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	// Timestamp is when it happened, in ISO 8601; see Message. It counts before the one of Message.
	Timestamp string `json:"timestamp,omitempty"`
	Message
}

// Track records an action. Event is required, and one of UserId and AnonymousId.
type Track struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Properties   map[string]interface{} `json:"properties,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	Event        string                 `json:"event,omitempty"`
	// Timestamp is when it happened, in ISO 8601; see Message. It counts before the one of Message.
	Timestamp string `json:"timestamp,omitempty"`
	Message
}

// Page records a page view. One of UserId and AnonymousId is required. Among the traits, url, title, referrer and path
// have a meaning to destinations.
type Page struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	// Traits of the page. On the wire they are called properties, as for every other client of the protocol.
	Traits      map[string]interface{} `json:"properties,omitempty"`
	AnonymousId string                 `json:"anonymousId,omitempty"`
	UserId      string                 `json:"userId,omitempty"`
	Category    string                 `json:"category,omitempty"`
	Name        string                 `json:"name,omitempty"`
	// Timestamp is when it happened, in ISO 8601; see Message. It counts before the one of Message.
	Timestamp string `json:"timestamp,omitempty"`
	Message
}

// Screen records the view of a screen of an app. One of UserId and AnonymousId is required.
type Screen struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Properties   map[string]interface{} `json:"properties,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	Category     string                 `json:"category,omitempty"`
	Name         string                 `json:"name,omitempty"`
	// Timestamp is when it happened, in ISO 8601; see Message. It counts before the one of Message.
	Timestamp string `json:"timestamp,omitempty"`
	Message
}

// Group ties a user to a group and records the traits of the group. GroupId is required, and one of UserId and
// AnonymousId.
type Group struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	Traits       map[string]interface{} `json:"traits,omitempty"`
	AnonymousId  string                 `json:"anonymousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	GroupId      string                 `json:"groupId,omitempty"`
	// Timestamp is when it happened, in ISO 8601; see Message. It counts before the one of Message.
	Timestamp string `json:"timestamp,omitempty"`
	Message
}

// Alias says that two ids are one user: what PreviousId did belongs to UserId. Both are required.
type Alias struct {
	Context      map[string]interface{} `json:"context,omitempty"`
	Integrations map[string]interface{} `json:"integrations,omitempty"`
	PreviousId   string                 `json:"previousId,omitempty"`
	UserId       string                 `json:"userId,omitempty"`
	// Timestamp is when it happened, in ISO 8601; see Message. It counts before the one of Message.
	Timestamp string `json:"timestamp,omitempty"`
	Message
}

// Call is any of the messages above, as a value or as a pointer.
type Call interface {
	kind() kind
	fill(*item)
}

func (Identify) kind() kind { return kindIdentify }
func (Track) kind() kind    { return kindTrack }
func (Page) kind() kind     { return kindPage }
func (Screen) kind() kind   { return kindScreen }
func (Group) kind() kind    { return kindGroup }
func (Alias) kind() kind    { return kindAlias }

func (m Identify) fill(i *item) {
	m.Message.fill(i, m.Timestamp)
	i.Context, i.Integrations, i.Traits = m.Context, m.Integrations, m.Traits
	i.AnonymousId, i.UserId = m.AnonymousId, m.UserId
}

func (m Track) fill(i *item) {
	m.Message.fill(i, m.Timestamp)
	i.Context, i.Integrations, i.Properties = m.Context, m.Integrations, m.Properties
	i.AnonymousId, i.UserId, i.Event = m.AnonymousId, m.UserId, m.Event
}

func (m Page) fill(i *item) {
	m.Message.fill(i, m.Timestamp)
	i.Context, i.Integrations, i.Properties = m.Context, m.Integrations, m.Traits
	i.AnonymousId, i.UserId, i.Category, i.Name = m.AnonymousId, m.UserId, m.Category, m.Name
}

func (m Screen) fill(i *item) {
	m.Message.fill(i, m.Timestamp)
	i.Context, i.Integrations, i.Properties = m.Context, m.Integrations, m.Properties
	i.AnonymousId, i.UserId, i.Category, i.Name = m.AnonymousId, m.UserId, m.Category, m.Name
}

func (m Group) fill(i *item) {
	m.Message.fill(i, m.Timestamp)
	i.Context, i.Integrations, i.Traits = m.Context, m.Integrations, m.Traits
	i.AnonymousId, i.UserId, i.GroupId = m.AnonymousId, m.UserId, m.GroupId
}

func (m Alias) fill(i *item) {
	m.Message.fill(i, m.Timestamp)
	i.Context, i.Integrations = m.Context, m.Integrations
	i.PreviousId, i.UserId = m.PreviousId, m.UserId
}

// fill takes timestamp, the message's own, before the one of Message.
func (m Message) fill(i *item, timestamp string) {
	if timestamp == "" {
		timestamp = m.Timestamp
	}
	i.MessageId, i.Timestamp = m.MessageId, timestamp
}
