# All a fresh machine needs is Go and make. The same targets run in CI.

GO       ?= go
FUZZTIME ?= 30s
LINT     := $(GO) tool -modfile=tools/go.mod golangci-lint

.PHONY: run test race lint fmt fuzz bench interop help

run: ## the main job: 10,000 real connections, of which 1,000 fall silent
	$(GO) run ./loadtest

test: ## all tests, with the race detector where there is a C compiler
	./scripts/test

race: ## all tests with the race detector
	$(GO) test -race ./...

lint: ## what CI complains about
	$(LINT) run ./...
	$(LINT) run --build-tags interop ./server ./keepalive
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./wheel ./pool ./keepalive/... ./server
	GOARCH=386 $(GO) vet ./...

fmt: ## format the code
	$(LINT) fmt ./...

fuzz: ## each fuzz test for FUZZTIME
	./scripts/fuzz $(FUZZTIME)

bench: ## the benchmarks that lie beside the code
	$(GO) test -run '^$$' -bench . ./wheel ./keepalive/... ./server

interop: ## tests with clients that nobody here wrote: nc and curl
	$(GO) test -tags interop -run 'Netcat|Curl' ./server ./keepalive

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1: /p' $(MAKEFILE_LIST)
