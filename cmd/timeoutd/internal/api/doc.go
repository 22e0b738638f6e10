// Package api is the HTTP face of a timeout center: JSON under /v1, /metrics, /healthz,
// /readyz, and a page at /. openapi.yaml describes it, and a test compares the two.
//
// Each verb of the center is there for one task, by its path, and for many, by their keys in
// the body. The id "/" fits into no path: however it is written, it counts as a part of the
// path's form. The body takes it. A path must be in its shortest form. Any other one is
// refused, and not redirected.
package api
