# workspace-fcgi: one non-recursive Makefile. `make help` lists the targets; every variable may be given on the command line.
#   V=1 shows whole commands. SANITIZE=address,undefined builds into build/asan. PREFIX, DESTDIR as usual.

CC ?= gcc
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/workspace-fcgi
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
PKG_CONFIG ?= pkg-config
PORT ?= 8080
HOST ?= 127.0.0.1
ifndef STATE
STATE := $(or $(value WORKSPACE_STATE_DIR),.run)
endif
ifndef WORKERS
WORKERS := $(or $(value WORKSPACE_WORKERS),2)
endif
TOKEN ?=

SANITIZE ?=
ifeq ($(SANITIZE),)
BUILD ?= build
else ifeq ($(SANITIZE),thread)
BUILD ?= build/tsan
else
BUILD ?= build/asan
endif

WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wpointer-arith -Wundef
ALL_CFLAGS = -std=gnu17 -D_GNU_SOURCE -I. $(WARNINGS) -fstack-protector-strong -MMD -MP $(WERROR) $(CFLAGS)
ALL_LDFLAGS = -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS)
ifneq ($(SANITIZE),)
ALL_CFLAGS += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all
ALL_LDFLAGS += -fsanitize=$(SANITIZE)
endif
ifeq ($(V),1)
Q =
say = @:
else
Q = @
say = @printf '  %-7s %s\n'
endif

, := ,
# Packages by their Debian names; `make deps` installs what is missing.
PACKAGES = gcc make pkg-config libfcgi-dev libjansson-dev libcurl4-openssl-dev liblmdb-dev check libseccomp-dev \
	libsodium-dev libyaml-dev bubblewrap lighttpd procps curl jq python3 python3-venv git patch \
	git-lfs wget ripgrep fd-find tree zip unzip

# The small libraries go into the programs where the system has them as archives: a keeper, which is a process of its own for
# each workspace, then starts in a quarter less time and needs 60 KiB less. STATIC=no links them dynamically.
STATIC ?= yes
archive = $(if $(filter yes,$(STATIC)),$(filter /%,$(shell $(CC) -print-file-name=lib$(1).a)))
library = $(if $(call archive,$(1)),-l:lib$(1).a,-l$(1))
libs = $(shell $(PKG_CONFIG) --libs $(1))
MAIN_LIBS := $(foreach name,fcgi lmdb jansson seccomp sodium,$(call library,$(name))) -lpthread -lm
AGENT_LIBS := $(foreach name,jansson sodium yaml,$(call library,$(name))) -lpthread -lm
TEST_LIBS = $(MAIN_LIBS) $(call library,yaml) $(call libs,check libcurl)

objects = $(patsubst %.c,$(BUILD)/%.o,$(1))
BASE_SOURCES  := $(wildcard lib/base/*.c lib/schema/*.c lib/wire/*.c)
HOUSE_SOURCES := $(wildcard lib/config/*.c lib/store/*.c lib/remote/*.c lib/driver/*.c lib/driver/*/*.c lib/keeper/*.c lib/egress/*.c \
	lib/warden/*.c lib/text/*.c lib/op/*.c)
FRONT_SOURCES := $(filter-out fcgi/main.c,$(wildcard fcgi/*.c fcgi/*/*.c))
AGENT_SOURCES := $(filter-out lib/agent/main.c,$(wildcard lib/agent/*.c lib/agent/*/*.c))
# What the agent does to bytes alone, and watching: tests call it as it is.
AGENT_PURE_SOURCES := $(wildcard lib/agent/edit/*.c lib/agent/syntax/*.c lib/agent/search/*.c lib/agent/watch/*.c) lib/agent/files/path.c
SUPPORT_SOURCES := $(wildcard tests/support/*.c)
LIBRARY := $(BUILD)/libworkspace.a

PROGRAMS := $(BUILD)/workspace-fcgi $(BUILD)/workspace-agent
UNIT_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
HTTP_TESTS := $(patsubst tests/http/%.c,$(BUILD)/tests/http/%,$(wildcard tests/http/test_*.c))
CONTRACT_TESTS := $(patsubst tests/contract/%.c,$(BUILD)/tests/contract/%,$(wildcard tests/contract/test_*.c))
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(wildcard tests/bench/bench_*.c))
BENCH_SUPPORT := $(call objects,$(filter-out tests/bench/bench_%.c,$(wildcard tests/bench/*.c)))
CHAOS_SUPPORT := $(call objects,$(filter-out tests/chaos/chaos.c tests/chaos/soak.c tests/chaos/clock.c,$(wildcard tests/chaos/*.c)))
CHAOS := $(BUILD)/tests/chaos/chaos $(BUILD)/tests/chaos/clock.so
TESTS := $(UNIT_TESTS) $(CONTRACT_TESTS) $(HTTP_TESTS)

# All cores, unless the person said how many.
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
build = @[ -d $(BUILD)/lib ] || echo 'The first build takes a moment: about $(1) on two cores.'; $(MAKE) --no-print-directory $(JOBS)

.PHONY: all programs tests deps
all:
	$(call build,half a minute) programs
programs: $(PROGRAMS)
	@:
tests: $(TESTS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# One archive of everything but the mains, so that each program and test links just what it uses.
$(LIBRARY): Makefile $(call objects,$(BASE_SOURCES) $(HOUSE_SOURCES) $(FRONT_SOURCES) $(SUPPORT_SOURCES) $(AGENT_PURE_SOURCES))
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) qcs $@ $(filter %.o,$^)

$(BUILD)/workspace-fcgi: $(BUILD)/fcgi/main.o $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(MAIN_LIBS)

$(BUILD)/workspace-agent: $(BUILD)/lib/agent/main.o $(call objects,$(AGENT_SOURCES) $(BASE_SOURCES))
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(AGENT_LIBS)

$(BENCHES): $(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o $(BENCH_SUPPORT) $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(TEST_LIBS)

$(BUILD)/tests/chaos/clock.so: tests/chaos/clock.c
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE $(WARNINGS) $(WERROR) -O2 -shared -fPIC -o $@ $<

$(BUILD)/tests/chaos/chaos $(BUILD)/tests/chaos/soak: %: %.o $(CHAOS_SUPPORT) $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(TEST_LIBS) -lm

# Calls of the agent, without the agent.
$(BUILD)/tests/test_agent_call: $(BUILD)/tests/test_agent_call.o $(call objects,$(AGENT_SOURCES)) $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(TEST_LIBS)

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(TEST_LIBS)

.PHONY: chaos soak uninstall run bring-uv check analyze check-threads check-valgrind check-layers bench bench-build fuzz fuzz-http fmt install help nightly openapi

# By the environment, as they were given: no value is read by a shell, or expanded.
run: override export PORT := $(value PORT)
run: override export HOST := $(value HOST)
run: override export WORKERS := $(value WORKERS)
run: override export TOKEN := $(value TOKEN)
run: export WORKSPACE_STATE_DIR := $(STATE)
run: deps
	$(call build,half a minute) programs bring-uv
	@[ ! -x $(TOOLS)/uv ] || $(BUILD)/workspace-fcgi tools add --new $(TOOLS)/uv $(TOOLS)/uvx >/dev/null || :
	@exec $(BUILD)/workspace-fcgi run

# Beside the compilers. Whatever the build, so that it comes once.
TOOLS := build/tools
bring-uv:
	@conf/bring_uv.sh $(TOOLS)

# These share the cores. Whole instances have them to themselves where times are asserted, or all of the machine is taken; the longest begin.
PATIENT_TESTS := $(filter $(foreach name,uv stuck bash audit compact examples file mcp names raw refusals rtk search tokens watch,%/test_$(name)),$(HTTP_TESTS))
LONG_TESTS = $(filter $(foreach name,stuck files_places finds_lines uv instance bash,%/test_$(name)),$(PATIENT_TESTS) $(UNIT_TESTS)) $(HTTP_FUZZER)
SHARED_TESTS = $(LONG_TESTS) $(filter-out $(LONG_TESTS),tests/openapi_validate.sh $(PATIENT_TESTS) $(UNIT_TESTS) $(CONTRACT_TESTS) $(FUZZ_REPLAYS))
# What a test program is run as besides root: the whole of exec, terminals and isolation without privileges too; greedy neighbours as one
# user of the kernel's with the gateway, whom nothing else runs as.
RUN_TESTS = $(filter-out $(PATIENT_TESTS),$(HTTP_TESTS)) $(if $(filter 0,$(shell id -u)),$(addsuffix :www-data,$(filter %/test_exec %/test_terminal %/test_isolation %/test_crash %/test_escape %/test_watch %/test_watch_ends,$(HTTP_TESTS))) $(addsuffix :61234,$(filter %/test_neighbours,$(HTTP_TESTS))))

check: CHAOS_SECONDS ?= $(if $(SANITIZE),45,120)
check: deps
	$(call build,a minute and a half) WERROR=-Werror programs bring-uv tests replays $(HTTP_FUZZER) $(CHAOS)
	@tests/check_layers.sh
	@CHAOS_SECONDS=$(CHAOS_SECONDS) CHAOS_SEED=20 tests/run.sh $(BUILD) $(RUN_TESTS) $(BUILD)/tests/chaos/chaos -- $(SHARED_TESTS)

# Everything is killed, stopped, filled and broken while commands run whose output is known; SEED repeats a run's decisions.
chaos: CHAOS_SECONDS ?= 300
chaos: deps
	$(call build,a minute) programs $(CHAOS)
	@CHAOS_SECONDS=$(CHAOS_SECONDS) SEED=$(SEED) $(BUILD)/tests/chaos/chaos

SOAK_SECONDS ?= 3600
soak: deps
	$(call build,a minute) programs $(BUILD)/tests/chaos/soak
	@SOAK_SECONDS=$(SOAK_SECONDS) $(BUILD)/tests/chaos/soak

tests-one: tests
	@tests/run.sh $(BUILD) $(ONE)

bench-build: programs $(BENCHES)
bench: deps
	$(call build,a minute) bench-build
	@failed=0; for b in $(BENCHES); do $$b || failed=1; done; exit $$failed

# Each fuzz target is a LLVMFuzzerTestOneInput in tests/fuzz/fuzz_NAME.c with a corpus in tests/fuzz/corpus/NAME; `make check` replays the
# corpora without libFuzzer, `make fuzz FUZZ_SECONDS=60 FUZZ_JOBS=1 FUZZ_ONLY="page json"` looks for more with clang, in build/fuzz.
# A target that stands in for processes or the clock is linked with --wrap.
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_REPLAYS := $(patsubst %,$(BUILD)/tests/fuzz/replay_%,$(FUZZ_NAMES))
FUZZERS := $(patsubst %,$(BUILD)/tests/fuzz/fuzz_%,$(FUZZ_NAMES))
FUZZ_SECONDS ?= 60
FUZZ_JOBS ?= 1
FUZZ_ONLY ?= $(FUZZ_NAMES)
wrap = $(patsubst %,-Wl$(,)--wrap=%,$(1))
FUZZ_LINK_agent = $(call wrap,supervise_start file_process_start file_host_join tree_kill_round tree_signal waitpid poll loop_turn)
FUZZ_LINK_keeper = $(call wrap,clock_boottime_ms)
FUZZ_LINK_warden = $(call wrap,child_start reactor_turn)
AGENT_OBJECTS := $(call objects,$(AGENT_SOURCES) $(BASE_SOURCES))
.PHONY: replays fuzzers
replays: $(FUZZ_REPLAYS)
fuzzers: $(FUZZERS)
$(BUILD)/tests/fuzz/replay_agent: $(BUILD)/tests/fuzz/fuzz_agent.o $(BUILD)/tests/fuzz/replay.o $(AGENT_OBJECTS)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) $(FUZZ_LINK_agent) -o $@ $^ $(AGENT_LIBS)
$(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) $(FUZZ_LINK_$*) -o $@ $^ $(TEST_LIBS)
$(BUILD)/tests/fuzz/fuzz_agent: $(BUILD)/tests/fuzz/fuzz_agent.o $(AGENT_OBJECTS)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $(FUZZ_LINK_agent) -o $@ $^ $(AGENT_LIBS)
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer $(FUZZ_LINK_$*) -o $@ $^ $(TEST_LIBS)
fuzz: deps
	@$(MAKE) --no-print-directory deps PACKAGES="clang libclang-rt-dev"
	@$(MAKE) --no-print-directory BUILD=build/fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined CFLAGS='-O2 -g' \
	  $(patsubst %,build/fuzz/tests/fuzz/fuzz_%,$(FUZZ_ONLY))
	@tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS) $(FUZZ_JOBS) $(FUZZ_ONLY)

# Whole requests at a living installation, drawn from the table of operations; `make check` runs 25 seconds of a fixed seed.
SECONDS ?= 300
SEED ?= 0
HTTP_FUZZER := $(BUILD)/tests/fuzz/http_fuzzer
$(HTTP_FUZZER): $(BUILD)/tests/fuzz/http_fuzzer.o $(BUILD)/tests/fuzz/values.o $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(TEST_LIBS)
fuzz-http: deps
	@$(MAKE) --no-print-directory programs $(HTTP_FUZZER)
	@$(HTTP_FUZZER) $(SECONDS) $(SEED)

# What reads the code instead of running it: clang's analyzer on every file, with the flags it is compiled with, and cppcheck. A finding fails.
# What they are told, with reasons, stands in tests/analyze. cppcheck is given the macros of foreign headers, whose functions it knows
# by its own tables, and sees a variable that cleans up after itself as one that need not be released.
ANALYZE := build/analyze
ANALYZED := $(wildcard fcgi/*.c fcgi/*/*.c lib/*/*.c lib/*/*/*.c tests/*.c tests/*/*.c)
ANALYSES := $(ANALYZED:%.c=$(ANALYZE)/%.ok) $(ANALYZE)/cppcheck.ok
CPPCHECK_FLAGS = --quiet --error-exitcode=1 --std=c11 --enable=warning,performance,portability --library=posix \
	--library=tests/analyze/cppcheck.cfg --suppressions-list=tests/analyze/cppcheck.supp --include=$(ANALYZE)/macros.h \
	-I. -D_GNU_SOURCE -D__GNUC__=12 $(foreach name,_cleanup_free_ _cleanup_close_,-D$(name)=static -U$(name))
.PHONY: analyses
analyses: $(ANALYSES)
$(ANALYZE)/%.ok: %.c tests/analyze/clang.sh tests/analyze/clang.supp
	@mkdir -p $(@D)
	$(say) ANALYZE $<
	$(Q)tests/analyze/clang.sh $< $@ $(ALL_CFLAGS)
$(ANALYZE)/macros.h:
	@mkdir -p $(@D)
	$(Q)printf '#include <%s>\n' sys/queue.h jansson.h check.h | $(CC) -D_GNU_SOURCE -E -dM - | \
	  grep -E '^#define (_?(S?LIST|TAILQ)_|json_|START_TEST|END_TEST)' >$@
$(ANALYZE)/cppcheck.ok: $(ANALYZE)/macros.h $(ANALYZED) $(wildcard fcgi/*.h fcgi/*/*.h lib/*/*.h lib/*/*/*.h tests/*/*.h tests/analyze/cppcheck.*)
	$(say) CPPCHECK 'fcgi lib tests'
	$(Q)cppcheck $(CPPCHECK_FLAGS) -j$(shell nproc) fcgi lib tests
	@touch $@
analyze: deps
	@$(MAKE) --no-print-directory deps PACKAGES="clang cppcheck"
	@$(MAKE) --no-print-directory $(JOBS) -k analyses

# ThreadSanitizer over what has threads. They are few (grep pthread_create): a worker's helper, which parses large bodies and condenses long output (fcgi/offload.c, and the
# queue of fcgi/loop.c under it); in a keeper the one that opens the logs (start.c), the one that flushes them (flusher.c) and the one that watches
# over memory (driver/local/guard.c); the log's buffer is everybody's (base/log.c); in a sandbox the watches' (agent/files/host.c), which share an inotify
# instance alone (agent/watch/instance.c): test_instance has threads for it. The unit tests and the local driver's contract go through each of
# them, the HTTP suites through all together: commands (exec), large bodies (refusals), limits (isolation).
# What the sanitizer itself breaks stays out, all of it without threads, as do the rooms of pure functions: it makes vfork a fork, so the agent is the plain one and its own tests are
# left out; it has a thread of its own, so doctor may not try a user namespace; it blocks signals in a handler that is left by a jump (tag faults).
THREADS := build/tsan
THREAD_TESTS := $(patsubst tests/%.c,$(THREADS)/tests/%,$(filter-out tests/test_agent% tests/test_doctor.c $(foreach name,text% edit% diff syntax search% finds%,tests/test_$(name).c),$(wildcard tests/test_*.c)) \
	$(wildcard tests/contract/test_local*.c) $(foreach name,exec refusals isolation,tests/http/test_$(name).c))
check-threads: export CK_EXCLUDE_TAGS := timing faults
check-threads: export CK_TIMEOUT_MULTIPLIER := 4
check-threads: deps
	$(call build,a minute) programs
	@$(MAKE) --no-print-directory $(JOBS) SANITIZE=thread $(THREADS)/workspace-fcgi $(THREAD_TESTS)
	@install build/workspace-agent $(THREADS)/workspace-agent
	@tests/analyze/threads.sh $(THREADS) $(filter $(THREADS)/tests/http/%,$(THREAD_TESTS)) -- \
	  $(filter-out $(THREADS)/tests/http/%,$(THREAD_TESTS))

# Memcheck over the unit tests: what is read before it was written, and where nothing is. Leaks are the address sanitizer's: memcheck also counts
# what a forked child inherited and let go of.
# valgrind 3.19 has no pidfd_open, so that what holds processes by pidfd cannot run: the suites of keeper, warden, pool and daemons, and the tests
# tagged pidfd in others. Nor do those of the agent, which is another program that nothing is seen of, tests of times, and damaged
# logs (tag faults), which a child looks over in as much time as somebody waits.
VALGRIND := build/valgrind
VALGRIND_TESTS := $(patsubst tests/%.c,$(VALGRIND)/tests/%,$(filter-out $(foreach name,keeper% warden% pool daemons agent% finds%,tests/test_$(name).c),$(wildcard tests/test_*.c)))
check-valgrind: export CK_EXCLUDE_TAGS := pidfd timing faults
check-valgrind: export CK_TIMEOUT_MULTIPLIER := 10
check-valgrind: export TEST_TIMEOUT := 900
check-valgrind: export UNDER := valgrind -q --error-exitcode=99 --leak-check=no --suppressions=tests/analyze/valgrind.supp
check-valgrind: deps
	@$(MAKE) --no-print-directory deps PACKAGES=valgrind
	@$(MAKE) --no-print-directory $(JOBS) BUILD=$(VALGRIND) CFLAGS='-O2 -g' programs $(VALGRIND_TESTS)
	@tests/run.sh $(VALGRIND) -- $(VALGRIND_TESTS)

openapi: programs
	$(BUILD)/workspace-fcgi describe openapi --state .run > openapi/openapi.json
	$(BUILD)/workspace-fcgi describe actions --state .run > openapi/actions.json
	$(BUILD)/workspace-fcgi describe config --state .run > conf/workspace-fcgi.conf

check-layers:
	@tests/check_layers.sh

fmt:
	clang-format -i $$(git ls-files '*.c' '*.h')

nightly: check
	@$(MAKE) --no-print-directory check SANITIZE=address,undefined
	@$(MAKE) --no-print-directory bench
	@$(MAKE) --no-print-directory analyze
	@$(MAKE) --no-print-directory check-threads
	@$(MAKE) --no-print-directory check-valgrind
	@$(MAKE) --no-print-directory soak SOAK_SECONDS=300
	@$(MAKE) --no-print-directory chaos
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=300

install: programs
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(SYSCONFDIR)/workspace-fcgi
	install -m 0755 $(BUILD)/workspace-fcgi $(DESTDIR)$(BINDIR)/workspace-fcgi
	install -m 0755 $(BUILD)/workspace-agent $(DESTDIR)$(LIBEXECDIR)/workspace-agent
	install -d $(DESTDIR)$(PREFIX)/share/workspace-fcgi
	install -m 0644 conf/lighttpd.conf conf/lighttpd-fragment.conf conf/uv.txt $(DESTDIR)$(PREFIX)/share/workspace-fcgi/
	install -m 0755 conf/bring_uv.sh $(DESTDIR)$(PREFIX)/share/workspace-fcgi/
	sed 's|/usr/local/bin/|$(BINDIR)/|; s|/usr/local/etc/|$(SYSCONFDIR)/|' conf/workspace-fcgi.service | \
	    install -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/share/workspace-fcgi/workspace-fcgi.service
	install -m 0640 conf/workspace-fcgi.conf $(DESTDIR)$(SYSCONFDIR)/workspace-fcgi/workspace-fcgi.conf.sample

# What install put there; a state directory is its owner's.
uninstall:
	rm -f $(DESTDIR)$(BINDIR)/workspace-fcgi $(DESTDIR)$(SYSCONFDIR)/workspace-fcgi/workspace-fcgi.conf.sample
	rm -rf $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(PREFIX)/share/workspace-fcgi
	@dir=$(DESTDIR)$(SYSCONFDIR)/workspace-fcgi; [ ! -d $$dir ] || rmdir $$dir 2>/dev/null || \
	    echo "$$dir stays: it holds settings that install did not put there ($$(ls -A $$dir | tr '\n' ' ' | sed 's/ $$//'))"

help:
	@echo 'make            build workspace-fcgi and workspace-agent into build/'
	@echo 'make run        install what is missing, build, start everything behind lighttpd, print URL, token and curl lines'
	@echo '                PORT=$(PORT) HOST=$(HOST) STATE=$(STATE) WORKERS=$(WORKERS) TOKEN= may be given; WORKSPACE_* settings pass through'
	@echo 'make check      the test suite; SANITIZE=address,undefined builds into build/asan'
	@echo 'make analyze    clang static analyzer and cppcheck over every file; a finding fails'
	@echo 'make check-threads   ThreadSanitizer over what has threads;  make check-valgrind   memcheck over the unit tests'
	@echo 'make bench      the figures of README, "How fast it is"; ONLY="start read" runs some'
	@echo 'make fuzz       libFuzzer on every parser, FUZZ_SECONDS=$(FUZZ_SECONDS) each, FUZZ_JOBS=$(FUZZ_JOBS) at a time; FUZZ_ONLY="page json" some (clang)'
	@echo 'make chaos      kill, stop, fill and break everything for CHAOS_SECONDS=300 and compare every byte; SEED= repeats a run'
	@echo 'make soak       full speed for SOAK_SECONDS=$(SOAK_SECONDS); fails where memory, descriptors, files or latencies grow'
	@echo 'make openapi    write openapi/ and conf/workspace-fcgi.conf anew from the tables'
	@echo 'make fmt        clang-format;  make nightly  every longer suite;  make install, uninstall PREFIX=$(PREFIX) DESTDIR='

deps:
	@missing=""; for p in $(PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "installing:$$missing"; $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing; fi

clean:
	rm -rf build
.PHONY: clean
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
