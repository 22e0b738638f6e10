// Package api is the HTTP face of a timeout centre: JSON under /v1, /metrics, /healthz,
// /readyz, and a page at /. openapi.yaml describes it, and a test holds both together.
//
// Each verb of the centre is there for one task, by its path, and for many, by their keys
// in the body. An id of "." or ".." fits into no path, since clients take it for a
// direction; the body takes any.
package api
