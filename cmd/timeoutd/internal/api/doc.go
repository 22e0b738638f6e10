// Package api is the HTTP face of a timeout centre: JSON under /v1, /metrics, /healthz,
// /readyz, and a page at /. openapi.yaml describes it, and a test holds both together.
//
// Each verb of the centre is there for one task, by its path, and for many, by their keys
// in the body. The id "/" fits into no path, since it is taken for a part of the path's
// form, however it is written; the body takes it. A path that is not in its shortest form is
// refused, and nobody is redirected.
package api
