# Fabric: what there is to run. Each target is enough on a fresh Debian 12 with Rust from rustup, as root.

CARGO ?= cargo
# Programs that targets need beside Debian's, by pinned version, kept below target/.
TOOLS := $(CURDIR)/target/tools
CARGO_DENY := 0.20.2
DENY := $(TOOLS)/deny-$(CARGO_DENY)/bin/cargo-deny

export CARGO_TERM_COLOR ?= auto

.PHONY: help deps build demo demo-keep test test-peers bench lint fmt

help:
	@echo 'make demo        three nodes, who reaches whom and with policies why not, flows and round trips'
	@echo 'make demo-keep   the same, and leaves the lab up to look around'
	@echo 'make test        every test: unit, property, golden, house, and real switches'
	@echo 'make test-peers  tests against other projects: libcni (needs Go)'
	@echo 'make bench       measurements beside peers, as ratios to the budgets'
	@echo 'make lint        fmt, clippy, rustdoc, cargo deny'
	@echo 'make deps        the Debian packages that are missing'

deps:
	@deploy/deps.sh test

build:
	@deploy/deps.sh demo
	$(CARGO) build --locked --workspace --bins

demo demo-keep:
	@deploy/deps.sh demo
	$(CARGO) build --locked --release --bin fabric-node --bin fabric-cni --bin fabric-trace --bin fabric-lab --bin fabric-demo
	@$(call release,fabric-demo) $(if $(filter demo-keep,$@),--keep) deploy/examples --then deploy/isolation

test: deps
	$(CARGO) build --locked --workspace --bins
	$(CARGO) test --locked --workspace --no-fail-fast

test-peers: deps
	@command -v go >/dev/null || { echo 'make test-peers builds libcni with Go 1.21 or later: install it' >&2; exit 6; }
	$(CARGO) build --locked --workspace --bins
	$(CARGO) test --locked -p fabric-tests --features peers --test peers -- --nocapture

bench: deps
	$(CARGO) build --locked --release --workspace --bins
	@$(call release,fabric-bench)

lint: $(DENY)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --workspace --no-deps --all-features
	$(DENY) --log-level warn check --hide-inclusion-graph licenses bans sources

$(DENY):
	$(CARGO) install cargo-deny --locked --version $(CARGO_DENY) --root $(TOOLS)/deny-$(CARGO_DENY)

fmt:
	$(CARGO) fmt --all

# A program of the release build, wherever cargo puts it.
release = "$${CARGO_TARGET_DIR:-target}/release/$(1)"
