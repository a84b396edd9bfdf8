# SPDX-License-Identifier: Apache-2.0
# Targets that call meson and ninja: `make help` lists them.
BUILD        ?= build
prefix       ?= /usr/local
PREFIX       ?= $(prefix)
DESTDIR      ?=
MESON_FLAGS  ?=
# Tests also wait: with one more than there are processors, these have less idle time.
JOBS         ?= $(shell expr $$(nproc) + 1)
TESTS        ?=
RETRIES      ?= 0
FUZZ_SECONDS ?= 20

SANITIZE = -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1

.DEFAULT_GOAL := all
.PHONY: all help deps demo test soak bench lint format install asan fuzz check-all clang arm64 clean

all: $(BUILD)/build.ninja ## build the program, build/warren
	@ninja -C $(BUILD)

help: ## list the targets
	@echo 'make [TARGET] [BUILD=build] [PREFIX=/usr/local] [DESTDIR=] [MESON_FLAGS=]'
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

deps: ## install the build dependencies (Debian packages)
	@tools/run/install-deps build

demo: deps ## build the program, and show what sandboxes can do
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD) warren
	@WARREN=$(abspath $(BUILD))/warren tools/run/demo

test: ## build, and run every test (TESTS='name...' JOBS=N RETRIES=0)
	@tools/run/install-deps build test
	@$(MAKE) --no-print-directory all
	@tools/run/run-tests --build $(BUILD) --jobs $(JOBS) --retries $(RETRIES) $(TESTS)

# Backends on which the oracle runs, ten minutes each; those that are not installed are skipped.
SOAK_BACKENDS = native gvisor docker chroot

soak: ## run the long form of the suites that have one (about an hour and a half)
	@tools/run/install-deps build test
	@$(MAKE) --no-print-directory all
	@WARREN_SOAK=1 tools/run/run-tests --build $(BUILD) --jobs $(JOBS) --timeout-multiplier 6 $(or $(TESTS),escape every-call)
	@WARREN_RESTARTS=100 WARREN_BUILD=$(abspath $(BUILD)) python3 test/system/test-many-execs.py
	@WARREN_SOAK=1 WARREN_BUILD=$(abspath $(BUILD)) python3 test/system/soak-snapshot.py
	@for b in $(SOAK_BACKENDS); do \
		WARREN_SOAK=1 WARREN_TEST_BACKEND=$$b WARREN_BUILD=$(abspath $(BUILD)) python3 test/system/soak-oracle.py || exit; \
	done

bench: ## measure, with peers in the same run
	@tools/run/install-deps build bench
	@PATH="$$PATH:/usr/sbin"; command -v dockerd >/dev/null || tools/run/install-deps bench-docker
	@$(MAKE) --no-print-directory all
	@WARREN=$(abspath $(BUILD))/warren WARREN_BUILD=$(abspath $(BUILD)) bench/run

lint: ## layers, format, shellcheck, mandoc, clang-tidy, gcc -fanalyzer
	@tools/run/install-deps build lint
	@tools/check/lint

format: ## format the C code in place
	@tools/run/install-deps style
	@git ls-files -z --cached --others --exclude-standard '*.c' '*.h' | xargs -0 -r clang-format -i

install: all ## install to DESTDIR and PREFIX
	@meson configure $(BUILD) --prefix=$(abspath $(PREFIX))
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD)

asan: ## run every test with the address and undefined behaviour sanitizers
	@tools/run/install-deps build test
	@$(MAKE) --no-print-directory all BUILD=build-asan MESON_FLAGS="$(SANITIZE)"
	@tools/run/run-tests --build build-asan --jobs $(JOBS) --retries $(RETRIES) --timeout-multiplier 6 $(TESTS)
	@ASAN_OPTIONS=abort_on_error=1 tools/run/run-tests --build build-asan --suite fuzz # also detects leaks

fuzz: ## let libFuzzer search for FUZZ_SECONDS=20 in each target
	@tools/run/install-deps build fuzz
	@CC=clang $(MAKE) --no-print-directory build-fuzz/build.ninja BUILD=build-fuzz \
		MESON_FLAGS="-Dfuzz=true $(SANITIZE)"
	@ninja -C build-fuzz fuzzers
	@tools/run/run-fuzz build-fuzz $(FUZZ_SECONDS) $(TESTS)

check-all: ## lint, every test, the sanitizers, and a short fuzz of each parser
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory asan
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=10

clang: ## build with clang too
	@tools/run/install-deps build fuzz
	@CC=clang $(MAKE) --no-print-directory all BUILD=build-clang

# Unit tests whose programs run in the guest.
ARM64_TESTS = buf fd id idmap json parse passwd ref seccomp

arm64: ## build for arm64 on any machine, and test it in an emulator with Debian's kernel
	@tools/run/install-deps build arm64
	@tools/run/foreign-root arm64 build-arm64-root
	@[ -f build-arm64/build.ninja ] || meson setup build-arm64 \
		--cross-file build-arm64-root/constants.ini --cross-file tools/run/arm64.ini
	@ninja -C build-arm64
	@WARREN=$(abspath build-arm64)/warren WARREN_GUEST=aarch64 WARREN_GUEST_ROOT=$(abspath build-arm64-root) \
		WARREN_GUEST_TESTS="$(ARM64_TESTS:%=$(abspath build-arm64)/test/test-%)" test/system/test-guest.py

clean: ## remove the build folders
	@rm -rf $(BUILD) build-asan build-fuzz build-clang build-analyzer build-arm64 build-arm64-root

$(BUILD)/build.ninja:
	@command -v meson >/dev/null && command -v ninja >/dev/null || \
		{ echo "meson or ninja is missing: run 'make deps' first" >&2; exit 1; }
	@meson setup $(BUILD) --prefix=$(abspath $(PREFIX)) $(MESON_FLAGS)
