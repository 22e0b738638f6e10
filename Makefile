# All a fresh machine needs is Go and make. The same targets run in CI.

GO       ?= go
FUZZTIME ?= 30s
TIME     ?= 10m

.PHONY: run test test-all test-rest race lint fmt fuzz explore chaos stress flakes fresh-tests mutate house conformance platforms bench bench-quick load soak demo-fleet interop browser pictures tidy image words vulncheck release-check release-dry-run cover help

run: ## the main job: 10,000 real connections, of which 1,000 fall silent
	$(GO) run ./loadtest

test: ## the tests of the first module, which need only Go; with the race detector if there is a C compiler
	./scripts/test

test-all: test test-rest ## all tests

test-rest: ## what make test leaves out: real servers, other people's programs and browsers, which it installs as root
	./scripts/test-rest

cover: ## which statements the tests of the first module run, in bin/cover.html
	@mkdir -p bin
	$(GO) test -vet=off -coverpkg=./... -coverprofile=bin/cover.out ./...
	$(GO) tool cover -html bin/cover.out -o bin/cover.html
	$(GO) tool cover -func bin/cover.out | tail -1

race: ## all tests with the race detector
	$(GO) test -race ./...

lint: ## what CI complains about
	./scripts/lint

fmt: ## format the code, of all modules
	$(GO) tool golangci-lint fmt .

fuzz: ## each fuzz test for FUZZTIME
	./scripts/fuzz $(FUZZTIME)

explore: ## the wheel in every interleaving of two and of three actors: some minutes
	$(GO) test -count 1 -timeout 30m -run TestExplore -v ./wheel/internal/explore -full

chaos: ## tests on a disturbed scheduler, for TIME=10m, of PKGS="./wheel ./pool/...", but SKIP='^TestX$$', with TAGS=interop, with STOP=200ms; SEED=7 RUN='^TestX$$' repeats a failure
	@cd tools && $(GO) run ./chaos -time $(or $(TIME),10m) -pkgs "$(or $(PKGS),./...)" -seed $(or $(SEED),0) -stop $(or $(STOP),0) -run '$(RUN)' -skip '$(SKIP)' -tags '$(TAGS)'

stress: ## tests N=4 times each, four at once, beside four busy loops, of PKGS="./wheel ./pool/..."
	@cd tools && $(GO) run ./chaos -stress -timeout 30m -times $(or $(N),4) -pkgs "$(or $(PKGS),./...)" -run '$(RUN)' -skip '$(SKIP)' -tags '$(TAGS)'

flakes: ## tests at random, each 200 times with the race detector, for TIME=30m, of PKGS="./wheel ./pool/..."; it remembers which
	@cd tools && ../scripts/with plain $(GO) run ./flakes -time $(or $(TIME),30m) -times $(or $(TIMES),200) -pkgs "$(or $(PKGS),./...)"

fresh-tests: ## the tests added or changed since BASE=origin/main, each 200 times with the race detector
	@cd tools && ../scripts/with plain $(GO) run ./flakes -base $(or $(BASE),origin/main) -times $(or $(TIMES),200)

mutate: ## small changes of PKGS="./wheel ./pool": which of them no test notices; TESTS="./wheel ./pool" for tests of other packages, too
	@cd tools && ../scripts/with plain $(GO) run ./mutate -pkgs "$(PKGS)" -tests "$(TESTS)" $(FLAGS)

house: ## how large the core and the timeout center are, beside their budgets: lines, names, functions of an expiry and of a heartbeat; FLAGS=-v lists these, FLAGS=-check fails
	@cd tools && ../scripts/with plain $(GO) run ./house $(FLAGS)

conformance: ## the suites of other people on guarded connections, beside those without a guard; SUITES="nettest h2spec" for these
	cd tools/conformance && ../../scripts/with race $(GO) run . $(SUITES)

platforms: ## the core on 32 bits, other processors and Windows, in qemu and wine; PLATFORMS="386 windows" for these
	./scripts/platforms $(PLATFORMS)

bench: ## all benchmarks, with all peers: ten minutes, into bench/RESULTS.md
	cd bench && $(GO) run ./report -out RESULTS.md

bench-quick: ## touch, memory and accuracy beside a few peers: a minute
	@cd bench && $(GO) run ./report -quick

load: ## 10,000 to 100,000 real connections beside other servers, 20 minutes, into loadtest/RESULTS.md; or CONNS=1000000 INTERVAL=20s TIMEOUT=60s
	CONNS=$(CONNS) INTERVAL=$(INTERVAL) TIMEOUT=$(TIMEOUT) RAMP=$(RAMP) ROUNDS=$(ROUNDS) FLAGS="$(FLAGS)" ./scripts/load

soak: ## echo-heartbeat with 15,000 clients, and then timeoutd on each engine, each for TIME while faults happen
	$(GO) run ./loadtest/soak -time $(TIME)
	cd cmd/timeoutd && HEARTWHEEL_SOAK=$(TIME) $(GO) test -tags interop -count 1 -timeout 24h -run TestSoak -v .

demo-fleet: ## three gateways and their clients: one is killed, one shut down, and a page shows who is where; FLAGS=-stay keeps it
	./scripts/demo-fleet $(FLAGS)

interop: ## tests with programs that nobody here wrote, such as curl, mosquitto and redis-cli
	./scripts/interop

browser: ## the pages in a real browser (the package chromium), under load
	./scripts/browser

pictures: ## all pictures of the documentation anew, into docs/images, from the pages in a real browser and what the benchmarks wrote: five minutes
	./scripts/pictures

tidy: ## go mod tidy in all modules
	./scripts/tidy

image: ## container images of both programs, for amd64 and arm64, into bin/images
	./scripts/image

words: ## the words of all pages, and whether they are too many
	./scripts/words -check

vulncheck: ## known vulnerabilities in what users get; needs vuln.go.dev
	./scripts/vulncheck

release-check: ## packs the modules and uses them as a stranger would, from empty folders
	cd tools && $(GO) run ./release check

release-dry-run: ## the archives of a release, into dist, without publishing them
	./scripts/release-dry-run

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' $(MAKEFILE_LIST)
