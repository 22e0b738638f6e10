// Package fleet is the half of a load test with -nodes: gateways with one Redis, and their clients'
// knowledge of them. A Fleet starts the gateways, and kills or restarts them. Clients are the sessions
// of one worker: they choose their next node and remember their registrations. At the end a Report
// compares these registrations with the nodes' words. It opens no connections: the workers of command
// loadtest do.
package fleet
