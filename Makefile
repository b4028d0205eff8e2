# Quorate. `make` alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

DIR  ?= .
FOR  ?= 60s
SIZE ?= 256
REPEAT ?= 5
SEEDS  ?= 20000
WASM   ?= 200
NATIVE ?= 500
BACKLOG ?= 200000
FAULTS ?= 4
DRAW   ?= 20
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BUILD   := CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"
LINT    := .tools/bin/golangci-lint

.PHONY: help build bin/demo demo cluster test verify campaign coverage model fuzz sim chaos crash soak mutants cases lint fmt bench profile setup peers

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

build: ## bin/quorate
	@$(BUILD) -o bin/quorate ./cmd/quorate

bin/demo: build
	@$(BUILD) -o bin/demo ./bench/demo

demo: bin/demo ## three nodes hash every file below DIR= through the queue; the leader is killed half-way
	@bin/demo -dir "$(DIR)"

cluster: PORT := 7340
cluster: bin/demo ## three nodes in the foreground on ports from PORT= on, data kept in data/; Ctrl-C stops them
	@bin/demo -cluster -data data -port $(PORT)

setup: ## install what the tests need beyond Go
	@scripts/setup

test: setup lint build ## every test that CI runs, race detector on
	@GOOS=wasip1 GOARCH=wasm go build ./cluster/group
	@go vet -tags chaos ./...
	@go vet -tags profile ./cmd/quorate
	go test -race -timeout 45m ./...
	go test -run 'NewPorts|SwappedAddresses' ./cluster
	go test ./bench/sim/wasm
	go test -race -tags chaos -run 'Seam' ./cluster ./cmd/quorate
	go test -race -tags profile -run 'ProfileHandler' ./cmd/quorate
	cd bench/peers && go test -race ./...
	cd bench/openapi && go test ./...

verify: ## the whole programme, layer after layer, an hour and a half, or those of LAYERS="model soak": the end of bin/verify.log says which failed
	@scripts/verify $(LAYERS)

coverage: ## the share of statements of fsm and wire that their tests reach; less than 95 % fails
	@scripts/coverage 95 ./fsm ./wire

model: ## random logs through the state machine and its model: SEEDS= of 200 operations; and restored at every index of 500 more
	go test ./fsm/fsmtest -timeout 60m -run 'TestModel$$|TestPrefixes$$' -seeds $(SEEDS) -ops 200 -prefixes 500 -long 20

fuzz: ## each fuzz target for FOR=
	@scripts/fuzz $(FOR)

sim: FOR := 10m
sim: ## clusters on made-up time, networks and disks: WASM= seeds of FOR= fake time, NATIVE= with the race detector
	@go run ./bench/sim/run -wasm $(WASM) -for $(FOR) -native $(NATIVE) $(if $(WITHIN),-within $(WITHIN)) $(if $(SEED),-seed $(SEED)) $(if $(LEDGER),-ledger $(LEDGER))

chaos: FOR := 90s
chaos: setup ## real processes under every kind of fault: FOR= each kind, KINDS=, SEED=; a page in bin/chaos
	@go run ./bench/chaos/run -for $(FOR) -commit $(VERSION) $(if $(KINDS),-kinds $(KINDS)) $(if $(SEED),-seed $(SEED)) $(if $(LEDGER),-ledger $(LEDGER))

crash: setup ## power cuts, failing disks and damaged files, the long form (about 9 minutes): nodes on disks that forget what was not synced
	@mkdir -p bin; rm -f bin/crash.txt
	go test ./cluster/store -timeout 10m -run PowerCuts -power-cuts 160
	go test ./bench/chaos -timeout 30m -run "PowerCut|FailingDisk|StalledDisk|DamageAtRest" -cuts 75 -single-cuts 250 -sweep 25 -fail 5 -damages 150 -ext4 25 -together 4 -report $(CURDIR)/bin/crash.txt
	@cat bin/crash.txt

campaign: FOR := 2h
campaign: setup ## process chaos of every kind at once and simulation, by turns, for FOR=: ledgers in bin/campaign
	@scripts/campaign $(FOR)

soak: FOR := 3m
soak: ## the same load for FOR=, with faults and a backlog of BACKLOG= that comes and goes: nothing is lost, nothing grows
	go test ./bench/chaos -timeout 0 -v -run 'TestSoak$$' -soak-for $(FOR) -soak-backlog $(BACKLOG) -soak-faults $(FAULTS)

mutants: ## planted bugs, and which layer of the tests catches each: MUTANT= its number, LAYER= model, unit, simulation, disk, nodes or process
	@go run ./bench/mutants $(if $(MUTANT),-mutant $(MUTANT)) $(if $(LAYER),-layer $(LAYER))

cases: ## DRAW= cases from the field by SEED=; all of them: go run ./bench/cases
	@go run ./bench/cases -run $(DRAW) $(if $(SEED),-seed $(SEED))

lint: setup ## gofmt, go vet, golangci-lint with the repository's settings
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt'd (make fmt):"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@go vet ./...
	@$(LINT) run --allow-parallel-runners ./...
	@cd bench/peers && go vet ./... && ../../$(LINT) run --allow-parallel-runners ./...
	@cd bench/openapi && go vet ./... && ../../$(LINT) run --allow-parallel-runners ./...

fmt: ## format the Go files
	@gofmt -w $$(git ls-files '*.go')

bench: build ## workloads W1 to W5 against three nodes started for it: SIZE= bytes, FOR= each
	@for w in W1 W2 W3 W4 W5; do bin/quorate bench $$w --self 3 --size $(SIZE) --for $(FOR) --repeat 3 || exit 1; done

peers: FOR := 10s
peers: ## Quorate against NATS JetStream, RabbitMQ and Redis Streams, which are installed for it: REPEAT= times, FOR= each, WITHIN= in all
	@scripts/setup-peers
	@cd bench/peers && go run . --for $(FOR) --repeat $(REPEAT) --size $(SIZE) $(if $(WITHIN),--within $(WITHIN)) --readme ../../README.md

profile: FOR := 10s
profile: W ?= W3
profile: ## where the time of a message goes: CPU, allocation, block and mutex profiles and traces of three nodes under W=, into bin/profile; a page in bench/
	@CGO_ENABLED=0 go build -trimpath -tags profile -ldflags "-X main.version=$(VERSION)" -o bin/quorate-profile ./cmd/quorate
	@go run ./bench/profile -w $(W) -size $(SIZE) -for $(FOR) -commit $(VERSION)
