package analytics

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("analytics: the client is closed")

	// ErrFull is returned by a call when there is no room for it and the policy is Refuse.
	ErrFull = errors.New("analytics: no room for another call")

	// ErrDropped is reported for a call that newer ones pushed out; the policy is DropOldest.
	ErrDropped = errors.New("analytics: dropped to make room for newer calls")

	// ErrUnsent is reported for a call that was not sent when the time for closing was over. If a try was under way,
	// the server may have got it. Where the last try had no answer, it is an *UnreachableError, of which errors.Is says that
	// it is this one too.
	ErrUnsent = errors.New("analytics: closed before the call was sent")

	// ErrSpoolDamaged is reported for calls whose bytes in the spool cannot be read any more. How many they were and which is
	// not always known; the report is then empty.
	ErrSpoolDamaged = errors.New("analytics: the spool is damaged")
)

// CallError says why a call was not accepted. Nothing is kept of such a call, and no other call suffers.
type CallError struct {
	// Code is a stable name of the reason; see Code.
	Code string
	// Field is the field it is about, as written on the wire, or empty.
	Field string
	// Message is for people.
	Message string
	// Err is what encoding/json said, or nil.
	Err error
}

// Error is Message, with Err when there is one.
func (e *CallError) Error() string {
	if e.Err != nil {
		return e.Message + " " + e.Err.Error()
	}
	return e.Message
}

// Unwrap is Err.
func (e *CallError) Unwrap() error { return e.Err }

// ConfigError says which option is wrong. NewWithConfig returns it; with New, every call does.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("analytics: %s %s", e.Field, e.Reason)
}

// StatusError is an answer that is not 2xx. Reported by itself it means that the server refused the calls for good and sending
// them again cannot help; inside a GaveUpError it is the answer to the last try.
type StatusError struct {
	// Status is the status of HTTP.
	Status int
	// ServerCode and ServerMessage are from the body of the answer, or empty.
	ServerCode    string
	ServerMessage string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("analytics: the server answered %d", e.Status)
	if e.ServerCode != "" {
		text += " " + e.ServerCode
	}
	if e.ServerMessage != "" {
		text += ": " + e.ServerMessage
	}
	return text
}

// GaveUpError is reported for calls that could not be sent in as many tries as the client makes. If no answer came
// to one of them, the server may have got the calls.
type GaveUpError struct {
	Tries int
	// Err is what happened on the last try.
	Err error
}

func (e *GaveUpError) Error() string {
	return fmt.Sprintf("analytics: gave up after %d tries: %v", e.Tries, e.Err)
}

// Unwrap is Err.
func (e *GaveUpError) Unwrap() error { return e.Err }

// UnreachableError is reported for a call that was not sent when the time for closing was over, and the last try had no answer
// from any server.
type UnreachableError struct {
	// Err is what happened on that try: connection refused, no such host, a certificate, a timeout.
	Err error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("analytics: the server cannot be reached: %v", e.Err)
}

// Unwrap is Err.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Is says that it is an ErrUnsent.
func (e *UnreachableError) Is(target error) bool { return target == ErrUnsent }

// LossError is returned by Close when accepted calls were lost, at any time since the client was made. Each of them was reported,
// too; a program without callbacks hears of them here.
type LossError struct {
	// Calls were lost: unsent, refused, given up, dropped or damaged.
	Calls int
	// Unsent is how many of them were not sent when the time for closing was over.
	Unsent int
	// Err is why the last of them were lost.
	Err error
}

func (e *LossError) Error() string {
	text := fmt.Sprintf("analytics: %d calls were lost", e.Calls)
	if e.Unsent > 0 {
		text += fmt.Sprintf(", %d of them unsent when the client was closed", e.Unsent)
	}
	return fmt.Sprintf("%s; the last: %v", text, e.Err)
}

// Unwrap is Err.
func (e *LossError) Unwrap() error { return e.Err }

// SpoolError says that the spool's folder failed. A call that returns it was not accepted.
type SpoolError struct {
	// Op is what was tried: open, lock, write.
	Op  string
	Err error
}

func (e *SpoolError) Error() string { return fmt.Sprintf("analytics: spool: %s: %v", e.Op, e.Err) }

// Unwrap is Err.
func (e *SpoolError) Unwrap() error { return e.Err }

// Code is a stable name for the reason of an error of this package, such as "no_user_anon_id" or "gave_up"; "" for other
// errors. Names the receiving API has too are the same as there.
func Code(err error) string {
	var call *CallError
	var config *ConfigError
	var refused *StatusError
	var gaveUp *GaveUpError
	var loss *LossError
	var spool *SpoolError
	var unreachable *UnreachableError
	switch {
	case errors.As(err, &loss): // Before what it wraps.
		if loss.Unsent > 0 {
			return "closed"
		}
		return Code(loss.Err)
	case errors.As(err, &unreachable):
		return "unreachable"
	case errors.As(err, &call):
		return call.Code
	case errors.As(err, &config):
		return "invalid_option"
	case errors.As(err, &gaveUp): // Before what it wraps.
		return "gave_up"
	case errors.As(err, &refused):
		return "refused"
	case errors.As(err, &spool):
		return "spool_failed"
	case errors.Is(err, ErrClosed), errors.Is(err, ErrUnsent):
		return "closed"
	case errors.Is(err, ErrFull):
		return "full"
	case errors.Is(err, ErrDropped):
		return "dropped"
	case errors.Is(err, ErrSpoolDamaged):
		return "spool_damaged"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "canceled"
	}
	return ""
}
