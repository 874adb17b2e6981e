# workspace-fcgi: one non-recursive Makefile. `make help` lists the targets; every variable may be given on the command line.
#   V=1 shows whole commands. SANITIZE=address,undefined builds into build/asan. PREFIX, DESTDIR as usual.

CC ?= gcc
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/workspace-fcgi
SYSCONFDIR ?= $(PREFIX)/etc
PKG_CONFIG ?= pkg-config
PORT ?= 8080
HOST ?= 127.0.0.1
STATE ?= .run
WORKERS ?= 2
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

# Packages by their Debian names; `make deps` installs what is missing.
PACKAGES = gcc make pkg-config libfcgi-dev libjansson-dev libcurl4-openssl-dev libgit2-dev liblmdb-dev check libseccomp-dev \
	libsodium-dev bubblewrap lighttpd procps

libs = $(shell $(PKG_CONFIG) --libs $(1))
MAIN_LIBS = -lfcgi -llmdb -lpthread $(call libs,jansson libseccomp libsodium)
AGENT_LIBS = $(call libs,jansson libsodium)
TEST_LIBS = $(MAIN_LIBS) $(call libs,check libcurl)

objects = $(patsubst %.c,$(BUILD)/%.o,$(1))
BASE_SOURCES  := $(wildcard lib/base/*.c lib/schema/*.c lib/wire/*.c)
HOUSE_SOURCES := $(wildcard lib/config/*.c lib/store/*.c lib/remote/*.c lib/driver/*.c lib/driver/*/*.c lib/keeper/*.c lib/egress/*.c \
	lib/warden/*.c lib/text/*.c lib/op/*.c)
FRONT_SOURCES := $(filter-out fcgi/main.c,$(wildcard fcgi/*.c fcgi/*/*.c))
AGENT_SOURCES := $(filter-out lib/agent/main.c,$(wildcard lib/agent/*.c lib/agent/*/*.c))
SUPPORT_SOURCES := $(wildcard tests/support/*.c)
LIBRARY := $(BUILD)/libworkspace.a

PROGRAMS := $(BUILD)/workspace-fcgi $(BUILD)/workspace-agent
UNIT_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))
HTTP_TESTS := $(patsubst tests/http/%.c,$(BUILD)/tests/http/%,$(wildcard tests/http/test_*.c))
CONTRACT_TESTS := $(patsubst tests/contract/%.c,$(BUILD)/tests/contract/%,$(wildcard tests/contract/test_*.c))
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(wildcard tests/bench/bench_*.c))
TESTS := $(UNIT_TESTS) $(CONTRACT_TESTS) $(HTTP_TESTS)

.PHONY: all programs tests deps
all: programs
programs: $(PROGRAMS)
tests: $(TESTS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# One archive of everything but the mains, so that each program and test links just what it uses.
$(LIBRARY): $(call objects,$(BASE_SOURCES) $(HOUSE_SOURCES) $(FRONT_SOURCES) $(AGENT_SOURCES) $(SUPPORT_SOURCES))
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/workspace-fcgi: $(BUILD)/fcgi/main.o $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(MAIN_LIBS)

$(BUILD)/workspace-agent: $(BUILD)/lib/agent/main.o $(call objects,$(AGENT_SOURCES) $(BASE_SOURCES))
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(AGENT_LIBS)

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(LIBRARY)
	$(say) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(TEST_LIBS)

deps:
	@missing=""; for p in $(PACKAGES); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "installing:$$missing"; $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing; fi

clean:
	rm -rf build
.PHONY: clean
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
