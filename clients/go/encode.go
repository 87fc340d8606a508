package analytics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

const (
	// largestCall in bytes of JSON: 32 KB (spec/specification.md, "Size limits"). The server discards a larger one.
	largestCall = 32 * 1024
	// deepestCall in levels of objects and arrays, the item itself included. The server discards a deeper one.
	deepestCall = 500
	// largestKept bounds the buffers that are kept for the next call.
	largestKept = 64 * 1024
)

// encoder turns one call into its JSON. It is reused, because a fresh buffer for every call costs more than the encoding.
type encoder struct {
	item item
	text bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() interface{} {
	e := &encoder{}
	e.json = json.NewEncoder(&e.text)
	// The limit counts bytes, and < > & as six bytes each would be counted differently from every other client.
	e.json.SetEscapeHTML(false)
	return e
}}

func newEncoder() *encoder {
	return encoders.Get().(*encoder)
}

// release lets go of the caller's maps.
func (e *encoder) release() {
	e.item = item{}
	if e.text.Cap() > largestKept {
		return
	}
	e.text.Reset()
	encoders.Put(e)
}

// encode returns the JSON of the item in a slice of its own. Errors are *CallError.
func (e *encoder) encode() ([]byte, error) {
	if err := e.write(); err != nil {
		return nil, &CallError{Code: "unencodable", Message: "The call cannot be written as JSON:", Err: err}
	}
	text := bytes.TrimSuffix(e.text.Bytes(), []byte{'\n'})
	if len(text) > largestCall {
		return nil, &CallError{
			Code:    "message_too_large",
			Message: fmt.Sprintf("The call has %d bytes of JSON, more than %d.", len(text), largestCall),
		}
	}
	if depthOf(text) > deepestCall {
		return nil, &CallError{
			Code:    "too_deeply_nested",
			Message: fmt.Sprintf("The call is nested more than %d levels deep.", deepestCall),
		}
	}
	return append(make([]byte, 0, len(text)), text...), nil
}

// write encodes the item into the buffer. A panic in a MarshalJSON of the caller's is an error of this call only.
func (e *encoder) write() (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	e.text.Reset()
	return e.json.Encode(&e.item)
}

// depthOf counts how deep objects and arrays are nested in JSON. Short texts are not looked at: a level takes two bytes.
func depthOf(text []byte) int {
	if len(text) <= 2*deepestCall {
		return 0
	}
	depth, deepest := 0, 0
	for n := 0; n < len(text); n++ {
		switch text[n] {
		case '{', '[':
			depth++
			if depth > deepest {
				deepest = depth
			}
		case '}', ']':
			depth--
		case '"':
			n = endOfString(text, n)
		}
	}
	return deepest
}

// endOfString is the place of the quote that ends the string starting at n.
func endOfString(text []byte, n int) int {
	for n++; n < len(text) && text[n] != '"'; n++ {
		if text[n] == '\\' {
			n++
		}
	}
	return n
}
