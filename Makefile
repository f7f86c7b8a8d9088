# SPDX-License-Identifier: GPL-3.0-or-later
# Every task of the project. Objects go to build/$(VARIANT)/; variants: release, asan, tsan, fuzz.
#
#   make run     install what is missing, build, serve ./data on 127.0.0.1:27017
#   make test    install what the tests need, build, unit tests, then pytests
#   make demo    a throw-away server, writes on one side and their events on the other
#   make check   test + lint + perf-guard + asan-test + tsan-test + fuzz-short, as .ci/run does
#   make crash   kills the server CRASH_KILLS times (CRASH_SEED repeats a run) and looks at what is left
#   make fuzz    every fuzz target for FUZZ_SECONDS (60); FUZZ="match update" chooses some
#   make soak    a mixed load for SOAK_SECONDS (600) that must leave everything flat
#   make valgrind-test   the same load under valgrind
#   make tsan-test TSAN_ALL=1   every test under ThreadSanitizer, not only those of threads
#   make tidy    clang-tidy with the checks of .clang-tidy
#   make bench   the benchmarks: measured, ceiling, ratio, peer (BENCH_ARGS=--quick: rough, some minutes);
#                make bench-docs makes docs/performance.md of the result
#   make docs    generate docs/compatibility.md from the tables
#
# V=1 shows the commands. WT_PREFIX=/path builds against a WiredTiger installed there instead of Debian's.

VARIANT ?= release
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX  ?= /usr/local
ifeq ($(origin CC),default)
CC      := $(if $(shell command -v ccache),ccache )gcc
endif
B       := build/$(VARIANT)
ifndef V
Q       := @
say      = @echo '  $1 $@'
endif

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wconversion
PKGS := wiredtiger libbson-1.0 libcrypto libpcre2-8 yaml-0.1
ifdef WT_PREFIX
WT_CFLAGS := -I$(WT_PREFIX)/include
WT_LIBS   := -L$(WT_PREFIX)/lib -Wl,-rpath,$(WT_PREFIX)/lib
endif
# pkg-config runs once, and only when something is compiled: `make run` may install it first.
pkg_once   = $(eval $1 := $(shell pkg-config $2))$($1)
PKG_CFLAGS = $(call pkg_once,PKG_CFLAGS,--cflags $(PKGS))
PKG_LIBS   = $(call pkg_once,PKG_LIBS,--libs $(PKGS))

CFLAGS_release := -O2 -g
# jemalloc keeps blocks of one size together, which finds in a large cache are faster by;
# MALLOC_LIBS= leaves the C library's. Sanitizers have their own.
MALLOC_LIBS    ?= -ljemalloc
LIBS_release    = -Wl,--push-state,--no-as-needed $(MALLOC_LIBS) -Wl,--pop-state
CFLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
CFLAGS_tsan    := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
CFLAGS_fuzz    := $(CFLAGS_asan) -fsanitize=fuzzer-no-link
ALL_CFLAGS  = -std=gnu17 -D_GNU_SOURCE -I. $(WARN) $(WERROR) $(CFLAGS_$(VARIANT)) $(WT_CFLAGS) \
	$(PKG_CFLAGS) $(CFLAGS)
ALL_LIBS    = $(WT_LIBS) $(PKG_LIBS) -lbidgcc000 -lpthread -lm -ldl $(LIBS_$(VARIANT)) \
	$(LDFLAGS)

LIB_SRC  := $(filter-out server/main.c,$(wildcard base/*.c wire/*.c storage/*.c oplog/*.c query/*.c \
	query/stages/*.c server/*.c server/commands/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/%.o)
MAIN_OBJ := $(B)/server/main.o
UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(UNIT_SRC:%.c=$(B)/%)
MONGOC_SRC := $(wildcard tests/integration/test_mongoc_*.c)
MONGOC_BIN := $(MONGOC_SRC:%.c=$(B)/%)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(FUZZ_SRC:%.c=$(B)/%)
C_FILES  := $(sort $(wildcard base/*.[ch] wire/*.[ch] storage/*.[ch] oplog/*.[ch] query/*.[ch] \
	query/stages/*.[ch] server/*.[ch] server/commands/*.[ch] tests/*/*.[ch]))

# --- building ----------------------------------------------------------------------------------

all: $(B)/runneld

$(B)/librunnel.a: $(LIB_OBJ)
	$(call say,AR  )
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(B)/runneld: $(MAIN_OBJ) $(B)/librunnel.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) -rdynamic -o $@ $^ $(ALL_LIBS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC  )
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# A unit test links the library's objects that it needs.
$(B)/tests/unit/%: tests/unit/%.c $(B)/librunnel.a
	@mkdir -p $(@D)
	$(call say,TEST)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d -MT $@ -o $@ $(filter %.c %.o,$^) $(B)/librunnel.a \
		$(ALL_LIBS) -lcmocka

# Clients of a running server; they link libmongoc and nothing of ours.
$(B)/tests/integration/%: tests/integration/%.c
	@mkdir -p $(@D)
	$(call say,TEST)
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE $(WARN) $(WERROR) $(CFLAGS_$(VARIANT)) -MMD -MP -MF $@.d -MT $@ \
		-o $@ $< \
		$(shell pkg-config --cflags --libs libmongoc-1.0) -lcmocka

# A fuzz target: libFuzzer drives it in the variant fuzz, elsewhere it only replays what was kept.
FUZZ_MAIN = $(if $(filter fuzz,$(VARIANT)),,$(B)/tests/fuzz/replay.o)
$(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/notation.o \
		$(B)/tests/fuzz/replay.o $(B)/librunnel.a
	$(call say,FUZZ)
	$(Q)$(CC) $(ALL_CFLAGS) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) -o $@ $< \
		$(B)/tests/fuzz/notation.o $(FUZZ_MAIN) $(B)/librunnel.a $(ALL_LIBS)

# The benchmark's client, and the server whose dispatcher is the skeleton's.
BENCH_OBJ := $(filter-out $(B)/tests/bench/skeleton.o,$(patsubst %.c,$(B)/%.o,$(wildcard tests/bench/*.c)))
BENCH_BIN := $(B)/tests/bench/bench $(B)/tests/bench/skeleton

$(B)/tests/bench/bench: $(BENCH_OBJ) $(B)/librunnel.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) -rdynamic -o $@ $^ $(ALL_LIBS)

$(B)/tests/bench/skeleton: $(MAIN_OBJ) $(B)/tests/bench/skeleton.o $(B)/librunnel.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) -rdynamic -o $@ $^ $(ALL_LIBS)

$(B)/tests/unit/test_bench_hist: $(B)/tests/bench/hist.o

CRASHFS_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/crash/*.c))
# The server on a disk that forgets what was not synced (tests/crash).
$(B)/tests/crash/runneld-crashfs: $(MAIN_OBJ) $(CRASHFS_OBJ) $(B)/librunnel.a
	$(call say,LINK)
	$(Q)$(CC) $(ALL_CFLAGS) -rdynamic -o $@ $^ $(ALL_LIBS)

$(B)/tests/unit/test_crash_disk: $(B)/tests/crash/disk.o $(B)/tests/crash/disk_file.o

# Deaths at every fault point and between any two steps of the disk, and the checks behind them.
CRASH_KILLS ?= 100
crash: test-deps
	@$(MAKE) --no-print-directory -j$(JOBS) all $(B)/tests/crash/runneld-crashfs
	$(PYTEST) -s --fault-step 1 --crash-kills $(CRASH_KILLS) $(if $(CRASH_SEED),--crash-seed $(CRASH_SEED)) pytests/crash

bench: deps bench-peers
	@$(MAKE) --no-print-directory -j$(JOBS) all $(BENCH_BIN)
	python3 tests/bench/bench.py --build $(B) $(BENCH_ARGS)

# Other servers to compare with; what cannot be had is left out.
bench-peers:
	@scripts/setup-peers.sh build

# docs/performance.md from the newest result.
bench-docs:
	python3 scripts/gen_performance.py build/bench.json

# Instructions per operation of the hot paths, against tests/bench/instructions.txt.
perf-guard: deps
	@scripts/install-deps.sh perf || echo "valgrind: not to be had here"
	@$(MAKE) --no-print-directory -j$(JOBS) all $(B)/tests/bench/bench
	python3 tests/bench/perf_guard.py --build $(B) $(if $(RENEW),--renew)

lib: $(B)/librunnel.a

unit: $(UNIT_BIN) $(FUZZ_BIN)
	@set -e; for t in $(UNIT_BIN); do $(TEST_ENV) $$t; done
	@set -e; for t in $(FUZZ_BIN); do $(TEST_ENV) $$t tests/fuzz/corpus/$${t##*/fuzz_}; done

integration: $(MONGOC_BIN)

# --- running -----------------------------------------------------------------------------------

run: deps
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@mkdir -p data
	$(B)/runneld --dbpath data --port 27017

demo: deps
	@$(MAKE) --no-print-directory -j$(JOBS) all build/venv/stamp
	@RUNNELD=$(B)/runneld build/venv/bin/python scripts/demo.py

deps:
	@WT_PREFIX="$(WT_PREFIX)" scripts/install-deps.sh build

test-deps: deps
	@scripts/install-deps.sh test
	@scripts/install-deps.sh node || echo "node: not to be had here; its tests will be skipped"
	@$(MAKE) --no-print-directory build/venv/stamp build/node/stamp

build/venv/stamp: pytests/requirements.txt
	scripts/setup-venv.sh build/venv $<
	@touch $@

build/node/stamp: pytests/node/versions
	scripts/setup-node.sh build/node $<
	@touch $@

# --- testing -----------------------------------------------------------------------------------

# pytest's own exit code 5 (nothing collected) is a failure here.
PYTEST = RUNNELD=$(B)/runneld RUNNEL_BUILD=$(B) $(TEST_ENV) build/venv/bin/python -m pytest \
	-c pytests/pytest.ini -p no:cacheprovider

ASAN_ENV := ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99 \
	LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0 \
	UBSAN_OPTIONS=print_stacktrace=1
TSAN_ENV := TSAN_OPTIONS=allocator_may_return_null=1:suppressions=$(CURDIR)/tests/tsan.supp:exitcode=99:second_deadlock_stack=1

test: test-deps
	@$(MAKE) --no-print-directory -j$(JOBS) all build-tests
	@$(MAKE) --no-print-directory unit pytests

build-tests: $(UNIT_BIN) $(MONGOC_BIN) $(FUZZ_BIN) $(BENCH_BIN) $(B)/tests/crash/runneld-crashfs

pytests: $(B)/runneld $(MONGOC_BIN) $(B)/tests/crash/runneld-crashfs
	$(PYTEST) -n $(JOBS) $(PYTEST_ARGS) pytests

asan-test: test-deps
	@$(MAKE) --no-print-directory VARIANT=asan -j$(JOBS) all build-tests
	@$(MAKE) --no-print-directory VARIANT=asan TEST_ENV='$(ASAN_ENV)' unit pytests

tsan-test: test-deps
	@$(MAKE) --no-print-directory VARIANT=tsan -j$(JOBS) all build-tests
	@$(MAKE) --no-print-directory VARIANT=tsan TEST_ENV='$(TSAN_ENV)' \
		PYTEST_ARGS='$(if $(TSAN_ALL),--timeout 900,-m concurrent)' unit pytests

# A mixed load for as long as wanted: memory, files, threads and disk stay flat.
SOAK_SECONDS ?= 600
.PHONY: soak valgrind-test tidy
soak: test-deps
	@$(MAKE) --no-print-directory -j$(JOBS) all
	$(PYTEST) -s --soak-seconds $(SOAK_SECONDS) $(PYTEST_ARGS) pytests/process/test_soak.py

# The same load under valgrind: leaks and wild reads over a long session.
valgrind-test: test-deps
	@scripts/install-deps.sh valgrind
	@$(MAKE) --no-print-directory -j$(JOBS) all
	$(PYTEST:RUNNELD=$(B)/runneld=RUNNELD=tests/valgrind.sh VALGRIND_RUNNELD=$(B)/runneld) -s \
		--soak-seconds $(SOAK_SECONDS) pytests/process/test_soak.py

FUZZ_SECONDS ?= 60
fuzz: deps
	@scripts/install-deps.sh lint
	@$(MAKE) --no-print-directory VARIANT=fuzz CC='$(CCACHE) clang' -j$(JOBS) fuzz-build
	tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS) $(JOBS) $(FUZZ)

fuzz-build: $(FUZZ_BIN)

# A few seconds each, where the compiler has libFuzzer.
fuzz-short: deps
	@scripts/install-deps.sh lint
	@mkdir -p build && if echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) \
		{ return 0; }' | clang -fsanitize=fuzzer -x c -o build/has-fuzzer - 2>/dev/null; \
	then $(MAKE) --no-print-directory fuzz FUZZ_SECONDS=3; \
	else echo "no libFuzzer here: its targets were only replayed"; fi

lint: deps
	@scripts/install-deps.sh lint
	@$(MAKE) --no-print-directory -j$(JOBS) B=build/lint-gcc WERROR=-Werror lint-build
	@$(MAKE) --no-print-directory -j$(JOBS) B=build/lint-clang CC='$(CCACHE) clang' WERROR=-Werror lint-build
	python3 tests/lint/check_layers.py
	python3 tests/lint/check_tables.py
	python3 scripts/gen_compatibility.py --check
	python3 scripts/gen_performance.py --check
	@clang-format --dry-run --Werror $(C_FILES)
	cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr -j$(JOBS) \
		--suppressions-list=tests/lint/cppcheck.supp --enable=warning,performance,portability \
		-I. $(sort $(dir $(LIB_SRC)))

# Minutes of work, so on demand.
tidy: deps
	@scripts/install-deps.sh tidy
	@printf '%s\n' $(LIB_SRC) server/main.c | xargs -P $(JOBS) -n 4 sh -c 'clang-tidy --quiet "$$@" -- \
		-std=gnu17 -D_GNU_SOURCE -I. $(PKG_CFLAGS) 2>/dev/null' tidy

CCACHE := $(shell command -v ccache)
lint-build: $(LIB_OBJ) $(MAIN_OBJ) $(BENCH_OBJ) $(B)/tests/bench/skeleton.o $(FUZZ_BIN:=.o)

check: test lint perf-guard asan-test tsan-test fuzz-short

# --- the rest ----------------------------------------------------------------------------------

format:
	clang-format -i $(C_FILES)

docs:
	python3 scripts/gen_compatibility.py

install: all
	install -D -m 755 $(B)/runneld $(DESTDIR)$(PREFIX)/bin/runneld
	install -D -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/runnel/LICENSE

clean:
	rm -rf build

.PHONY: all bench bench-peers bench-docs perf-guard crash lib unit integration run demo deps test-deps test build-tests pytests asan-test \
	tsan-test fuzz fuzz-build fuzz-short lint lint-build check format docs install clean
.NOTPARALLEL: check
-include $(LIB_OBJ:.o=.d) $(MAIN_OBJ:.o=.d) $(wildcard $(B)/tests/bench/*.d) $(UNIT_BIN:=.d) $(MONGOC_BIN:=.d) \
	$(wildcard $(B)/tests/fuzz/*.d) $(CRASHFS_OBJ:.o=.d)
