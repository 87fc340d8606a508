package analytics

// Version of this library, as sent in context.library and User-Agent.
const Version = "2.0.0"

// Endpoint is where calls go when no endpoint is set: a server on this machine, as `millrace dev` starts it.
const Endpoint = "http://localhost:8080"

// libraryName stands beside Version in context.library of every batch.
const libraryName = "millrace-go"
