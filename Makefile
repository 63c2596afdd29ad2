# SPDX-License-Identifier: LGPL-2.1-or-later
# Builds, tests and installs Xenpack. Written by hand; ./configure (run from here when needed) says
# where things are, the rooms' folders say which files there are: a new source needs no line here.
# `make help` lists what a person may ask for.

MAKEFLAGS += --no-builtin-rules
ifeq ($(MAKELEVEL),0)
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
SHELL := /bin/bash

V ?= 0
ifeq ($(V),0)
Q := @
say = @printf '  %-9s %s\n' '$(1)' '$(2)';
endif

.PHONY: all
all:

# ---- configuration ------------------------------------------------------------------------------

# What needs neither compiler nor libraries works before ./configure has run.
bare_goals := clean distclean help deps check-includes check-spdx check-own-words check-whitespace
# What installs missing packages first. The others only say what is missing. DEPS=no: never.
installing_goals := demo bench bench-fork lab check check-%

goals := $(or $(MAKECMDGOALS),all)
ifneq ($(filter-out $(bare_goals),$(goals)),)
include config.mk
endif
ifneq ($(DEPS),no)
ifneq ($(filter $(installing_goals),$(filter-out $(bare_goals),$(goals))),)
configure config.mk: build/packages
endif
endif

configure: configure.ac
	$(Q)command -v autoconf >/dev/null && [[ -f /usr/share/aclocal/pkg.m4 ]] || \
	    { echo "autoconf and pkgconf are needed: run 'make deps' as root" >&2; exit 1; }
	$(call say,AUTOCONF,$@)autoconf -I /usr/share/aclocal -o $@ $< && rm -rf autom4te.cache

# A config.status from before remembers the options that a person gave.
config.mk: configure config.mk.in
	$(Q)if [[ -x config.status ]] && ./config.status --recheck >/dev/null; then \
	    ./config.status --quiet && touch $@; \
	else \
	    ./configure --quiet || \
	        { echo "where a package is missing, 'make deps' installs it" >&2; exit 1; }; \
	fi

# Touched when something was installed, so that ./configure looks again.
build/packages: FORCE
	$(Q)mkdir -p build; tests/deps; r=$$?; \
	if [[ $$r == 10 || ( $$r == 0 && ! -e $@ ) ]]; then touch $@; else exit $$r; fi

.PHONY: deps FORCE
deps: ; $(Q)tests/deps || [[ $$? == 10 ]]
FORCE:

# ---- compilers ----------------------------------------------------------------------------------

CLANGXX ?= clang++
CLANG ?= clang
CLANG_TIDY ?= clang-tidy
CLANG_FORMAT ?= clang-format
CCACHE ?= $(shell command -v ccache)
# The same source in another folder is the same object.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

warnings := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion $(WERROR)
# What the sources cannot do without, whatever flags a person chooses.
common := $(warnings) -I. -ffile-prefix-map=$(CURDIR)=. \
    -DXENPACK_VERSION='"$(VERSION)"' -DXENPACK_XEN_VERSION='"$(XEN_VERSION)"' \
    -DXENPACK_PLUGIN_DIR='"$(libdir)/xenpack"' -DXENPACK_CONFIG_DIR='"$(sysconfdir)/xenpack"'
required := -std=gnu++20 $(common) $(XENLIGHT_CFLAGS) $(XENSTORE_CFLAGS) $(XENEVTCHN_CFLAGS) \
    $(XENFOREIGNMEMORY_CFLAGS) $(DEVMAPPER_CFLAGS) $(EVENT_CFLAGS) $(INIH_CFLAGS) $(FMT_CFLAGS) \
    $(JSON_CFLAGS) $(CLI11_CFLAGS) $(CURL_CFLAGS) $(SYSTEMD_CFLAGS)
# The tests' C sources.
required_c := -std=gnu11 $(common) $(XENLIGHT_CFLAGS)
test_flags := $(GTEST_CFLAGS) $(CMOCKA_CFLAGS)

plugin_libs := $(XENLIGHT_LIBS) $(XENEVTCHN_LIBS) $(XENFOREIGNMEMORY_LIBS) $(FMT_LIBS)
host_libs := $(EVENT_LIBS) $(XENSTORE_LIBS) $(INIH_LIBS) $(FMT_LIBS) $(CURL_LIBS) $(SYSTEMD_LIBS)

sanitize := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
fuzz_sanitize := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all

# ---- sources ------------------------------------------------------------------------------------

program_mains := $(shell grep -lE '^int main\b' watcher/*.cc watcher/*/*.cc 2>/dev/null)
# The simulated host's model, which experiments use without the plugin that speaks for it, and the
# plugin's own files. What the plugin takes from other rooms is linked into it.
sim_plugin_src := $(addprefix plugin/sim/,keys.cc scenario.cc sections.cc start_cost.cc store.cc \
    toolstack.cc workload.cc world.cc world_forks.cc)
sim_src := $(filter-out $(sim_plugin_src),$(wildcard plugin/sim/*.cc))
sim_needs_src := watcher/guest/reporting.cc watcher/guest/brake.cc watcher/guest/forking.cc \
    watcher/guest/fork_text.cc watcher/pressure/report.cc watcher/config/size.cc \
    watcher/config/lines.cc
rooms_src := $(filter-out $(program_mains) watcher/cli/% watcher/guest/%, \
    $(wildcard watcher/*.cc watcher/*/*.cc)) $(sim_src) watcher/guest/reporting.cc \
    watcher/guest/brake.cc \
    watcher/guest/proc_text.cc watcher/guest/forking.cc watcher/guest/fork_text.cc
cli_src := $(wildcard watcher/cli/*.cc)
guest_src := $(wildcard watcher/guest/*.cc) watcher/pressure/report.cc watcher/files/whole_file.cc
plugin_src := $(wildcard plugin/libxl/*.cc)
hotplug_src := $(wildcard hotplug/*.cc)
# What the plugin does with devices, where no program is to be started.
hotplug_parts := $(filter-out hotplug/hotplug.cc,$(hotplug_src))

unit_src := $(wildcard tests/unit/*.cc tests/unit/*/*.cc) $(sim_plugin_src) \
    $(filter-out $(program_mains) $(rooms_src),$(cli_src) $(guest_src))
# One program for each file with a main; the others in the folder are linked to all of them.
plugin_tests := $(shell grep -lE '^int main\b' tests/plugin/*.c tests/plugin/*.cc 2>/dev/null)
plugin_test_parts := $(filter-out $(plugin_tests),$(wildcard tests/plugin/*.c tests/plugin/*.cc))
plugin_test_names := $(basename $(notdir $(plugin_tests)))
# A program that tries a plugin on a host, by hand or in the lab. Not installed.
probe_src := $(wildcard tests/plugin/on_host/*.cc)
# The benchmarks in virtual time, of policies and of scale, and what compares the simulated host with
# the lab. What they are made of, but for their mains, is tested too.
bench_main := $(wildcard tests/bench/*_bench.cc) tests/bench/model_check.cc
bench_src := $(filter-out $(bench_main),$(wildcard tests/bench/*.cc tests/bench/*/*.cc))
unit_src += $(bench_src) hotplug/base.cc hotplug/request.cc plugin/libxl/vbd_number.cc plugin/libxl/paging_pool.cc
fuzz_names := $(patsubst tests/fuzz/%.cc,%,$(wildcard tests/fuzz/*_fuzz.cc))

manuals := $(patsubst etc/man/%.scd,build/man/%,$(wildcard etc/man/*.scd))

# Changes when a file comes or goes, so that nothing keeps a deleted file's code.
build/sources: FORCE
	$(Q)mkdir -p build; printf '%s\n' $(sort $(rooms_src) $(cli_src) $(guest_src) $(plugin_src) \
	    $(hotplug_src) $(sim_plugin_src) $(unit_src) $(bench_main) $(plugin_tests) $(plugin_test_parts) \
	    $(probe_src)) >$@.new; \
	if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# ---- how things are built, once for each flavour ------------------------------------------------

# $(call objects,DIR,SOURCES)
objects = $(patsubst %,$(1)/obj/%.o,$(basename $(2)))
# What a test's source asks of its own link, in lines such as `// link: -Wl,--wrap=xs_read`.
link_lines = $$(sed -n 's|^// link: ||p' $(1))

# $(call flavour,DIR,COMPILER,COMPILE FLAGS,LINK FLAGS,C COMPILER AND FLAGS)
define flavour
$(1)/obj/plugin/%.o: flags += -fPIC -fvisibility=hidden
$(call objects,$(1),$(sim_needs_src)): flags += -fPIC
$(call objects,$(1),$(hotplug_parts)): flags += -fPIC -fvisibility=hidden
$(1)/obj/tests/%.o: flags += $(test_flags)
$(1)/obj/%.o: %.cc config.mk
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)$$(CCACHE) $(2) $(required) $(3) $$(flags) -MMD -MP -c -o $$@ $$<

$(1)/obj/%.o: %.c config.mk
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)$$(CCACHE) $(5) $(required_c) $$(flags) -MMD -MP -c -o $$@ $$<

$(1)/rooms.a: $(call objects,$(1),$(rooms_src)) build/sources
	$$(call say,AR,$$@)rm -f $$@; ar rcs $$@ $$(filter %.o,$$^)

$(1)/plugin.a: $(call objects,$(1),$(plugin_src)) build/sources
	$$(call say,AR,$$@)rm -f $$@; ar rcs $$@ $$(filter %.o,$$^)

$(1)/xenpackd: $(call objects,$(1),watcher/xenpackd.cc) $(1)/rooms.a
	$$(call say,LINK,$$@)$(2) -Wl,--as-needed $(4) -o $$@ $$(filter %.o %.a,$$^) $(host_libs)

$(1)/xenpack: $(call objects,$(1),$(cli_src)) $(1)/rooms.a
	$$(call say,LINK,$$@)$(2) -Wl,--as-needed $(4) -o $$@ $$(filter %.o %.a,$$^) $(host_libs)

# Run for each disk and network of each domain: what it loads costs time there, so the
# C++ libraries are in it.
$(call objects,$(1),$(hotplug_src)): flags += -DFMT_HEADER_ONLY
$(1)/xenpack-hotplug: $(call objects,$(1),$(hotplug_src)) build/sources
	$$(call say,LINK,$$@)$(2) -Wl,--as-needed -static-libstdc++ -static-libgcc $(4) -o $$@ \
	    $$(filter %.o,$$^) $(XENSTORE_LIBS) \
	    $(DEVMAPPER_LIBS)

$(1)/xenpack-libxl.so: $(call objects,$(1),$(plugin_src) $(hotplug_parts)) build/sources plugin/libxl/exports.map
	$$(call say,LINK,$$@)$(2) -shared -Wl,--version-script=plugin/libxl/exports.map \
	    -Wl,--as-needed -Wl,-z,nodelete $(4) -o $$@ $$(filter %.o,$$^) $(plugin_libs) \
	    $(XENSTORE_LIBS) $(DEVMAPPER_LIBS)

$(1)/xenpack-sim.so: $(call objects,$(1),$(sim_plugin_src) $(sim_src) $(sim_needs_src)) \
    build/sources plugin/sim/exports.map
	$$(call say,LINK,$$@)$(2) -shared -Wl,--version-script=plugin/sim/exports.map \
	    -Wl,--as-needed -Wl,-z,nodelete $(4) -o $$@ $$(filter %.o,$$^) $(FMT_LIBS)

$(1)/tests/unit: $(call objects,$(1),$(unit_src)) $(1)/rooms.a
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)$(2) -Wl,--as-needed $(4) -o $$@ $$(filter %.o %.a,$$^) $(host_libs) \
	    -lgmock_main $(GTEST_LIBS)

$(patsubst tests/bench/%.cc,$(1)/tests/%,$(bench_main)): $(1)/tests/%: $(1)/obj/tests/bench/%.o \
    $(call objects,$(1),$(bench_src)) $(1)/rooms.a
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)$(2) -Wl,--as-needed $(4) -o $$@ $$(filter %.o %.a,$$^) $(host_libs)

$(1)/tests/plugin/%: $(1)/obj/tests/plugin/%.o $(call objects,$(1),$(plugin_test_parts) \
    hotplug/base.cc hotplug/request.cc) $(1)/plugin.a $(1)/rooms.a
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)$(2) -Wl,--as-needed $(4) $$(call link_lines,$$(wildcard tests/plugin/$$*.c*)) -o $$@ \
	    $$(filter %.o %.a,$$^) $(plugin_libs) $(host_libs) $(CMOCKA_LIBS)
endef

release := $(CPPFLAGS) $(CXXFLAGS)
$(eval $(call flavour,build,$(CXX),$(release),$(CXXFLAGS) $(LDFLAGS),$(CC) $(CPPFLAGS) $(CFLAGS)))
$(eval $(call flavour,build/asan,$(CXX),-D_GLIBCXX_ASSERTIONS $(sanitize),$(sanitize),$(CC) $(sanitize)))
$(eval $(call flavour,build/clang,$(CLANGXX),-O1,,$(CLANG) -O1))
$(eval $(call flavour,build/fuzz,$(CLANGXX),$(fuzz_sanitize) -fsanitize=fuzzer-no-link,$(fuzz_sanitize),false))

build/tests/plugin_probe: $(call objects,build,$(probe_src)) build/sources
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(CXXFLAGS) $(LDFLAGS) -Wl,--as-needed -o $@ $(filter %.o,$^) $(host_libs)

# The reporter runs in guests of any distribution and in an initramfs: static, and small. libfmt is
# not packaged as an archive, hence its header-only form; with a fixed separator it needs no locale.
guest_flags := $(filter-out -O%,$(release)) -Os -DFMT_HEADER_ONLY \
    "-DFMT_STATIC_THOUSANDS_SEPARATOR=','" -ffunction-sections -fdata-sections
build/guest/obj/%.o: %.cc config.mk
	@mkdir -p $(@D)
	$(call say,CXX,$@)$(CCACHE) $(CXX) $(required) $(guest_flags) -MMD -MP -c -o $@ $<

build/xenpack-guest: $(call objects,build/guest,$(guest_src)) build/sources
	$(call say,LINK,$@)$(CXX) -static -Wl,--gc-sections $(guest_flags) $(LDFLAGS) -o $@ \
	    $(filter %.o,$^) $(XENSTORE_STATIC_LIBS)

build/fuzz/%_fuzz: build/fuzz/obj/tests/fuzz/%_fuzz.o build/fuzz/rooms.a
	$(call say,LINK,$@)$(CLANGXX) $(fuzz_sanitize) -fsanitize=fuzzer -Wl,--as-needed -o $@ \
	    $(filter %.o %.a,$^) $(host_libs)

build/man/%: etc/man/%.scd config.mk
	@mkdir -p $(@D)
	$(call say,MAN,$@)$(SCDOC) <$< >$@

-include $(shell [[ -d build ]] && find build -name '*.d' -type f)

programs := build/xenpackd build/xenpack build/xenpack-guest build/xenpack-hotplug \
    build/xenpack-libxl.so build/xenpack-sim.so
all: $(programs) $(manuals)

# ---- installing ---------------------------------------------------------------------------------

# MODE:SOURCE:DESTINATION. Mode `conf` is a file that belongs to the administrator once it is there;
# `link` makes the destination a symbolic link to the source, which is installed before it.
man_destination = $(mandir)/man$(patsubst .%,%,$(suffix $(1)))/$(notdir $(1))
# Hooks of a guest: for its administrator to copy to /etc/xenpack.
guest_examples := $(datarootdir)/doc/xenpack-guest/examples
installed := \
    0755:build/xenpackd:$(sbindir)/xenpackd \
    0755:build/xenpack:$(bindir)/xenpack \
    0755:build/xenpack-guest:$(sbindir)/xenpack-guest \
    0755:build/xenpack-hotplug:$(libdir)/xenpack/xenpack-hotplug \
    $(foreach f,block vif,link:$(libdir)/xenpack/xenpack-hotplug:$(sysconfdir)/xen/scripts/$(f)-xenpack) \
    0644:build/xenpack-libxl.so:$(libdir)/xenpack/xenpack-libxl.so \
    0644:build/xenpack-sim.so:$(libdir)/xenpack/xenpack-sim.so \
    $(foreach f,$(wildcard etc/xenpack.conf),conf:$(f):$(sysconfdir)/xenpack/$(notdir $(f))) \
    $(foreach f,$(wildcard hotplug/guest/*/*),0755:$(f):$(guest_examples)/$(f:hotplug/guest/%=%)) \
    $(foreach f,$(wildcard etc/completion/*),0644:$(f):$(completionsdir)/$(notdir $(f))) \
    $(foreach f,$(manuals),0644:$(f):$(call man_destination,$(f)))
ifneq ($(systemdsystemunitdir),no)
installed += \
    $(foreach f,$(wildcard etc/systemd/*.service),0644:$(f):$(systemdsystemunitdir)/$(notdir $(f)))
endif

.PHONY: install uninstall
install: all
	$(Q)set -e; for entry in $(installed); do \
	    IFS=: read -r mode from to <<<"$$entry"; to="$(DESTDIR)$$to"; \
	    if [[ $$mode == conf ]]; then \
	        if [[ -e $$to ]]; then echo "  KEEP      $$to"; continue; fi; mode=0644; \
	    fi; \
	    if [[ $$mode == link ]]; then \
	        install -d "$$(dirname "$$to")"; ln -sfn "$$from" "$$to"; continue; \
	    fi; \
	    install -D -m "$$mode" "$$from" "$$to"; \
	done

uninstall:
	$(Q)for entry in $(installed); do \
	    IFS=: read -r mode from to <<<"$$entry"; to="$(DESTDIR)$$to"; \
	    if [[ $$mode == conf && -e $$to ]] && ! cmp -s "$$from" "$$to"; then \
	        echo "  KEEP      $$to (changed since it was installed)"; continue; \
	    fi; \
	    rm -f "$$to"; \
	    rmdir --ignore-fail-on-non-empty "$$(dirname "$$to")" 2>/dev/null || :; \
	done

# Everything as it would be on a host.
build/stage: all
	$(Q)rm -rf $@; $(MAKE) --no-print-directory install DESTDIR=$@

# ---- the lab ------------------------------------------------------------------------------------

.PHONY: demo bench bench-balance bench-fork bench-scale lab
# Put into the lab's dom0: what is installed on a host, and what only the lab's cases use.
lab_payload := --payload build/lab-stage --payload build/lab-tools
lab_tools := $(basename $(notdir $(wildcard tests/lab/tools/*.cc)))
lab_needs := build/lab-stage build/tests/model_check \
    $(addprefix build/lab-tools/usr/bin/,plugin_probe idle_kernel $(lab_tools))
# Without debugging symbols, as a package would be: dom0 there lives in memory.
build/lab-stage: build/stage
	$(Q)rm -rf $@; cp -a $< $@
	$(Q)strip --strip-unneeded $@$(sbindir)/* $@$(bindir)/* $@$(libdir)/xenpack/*.so
build/lab-tools/usr/bin/%: build/tests/%
	$(Q)install -D -s $< $@

build/tests/idle_kernel: tests/lab/tools/idle_kernel.S
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) -nostdlib -static -no-pie -Wl,--build-id=none \
	    -Wl,-Ttext-segment=0x100000 -o $@ $<

$(addprefix build/tests/,$(lab_tools)): build/tests/%: build/obj/tests/lab/tools/%.o build/rooms.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(CXXFLAGS) $(LDFLAGS) -Wl,--as-needed -o $@ $< build/rooms.a \
	    $(XENLIGHT_LIBS) $(host_libs)

demo: $(lab_needs) ; $(Q)tests/lab/demo $(lab_payload)
bench: $(lab_needs) ; $(Q)tests/lab/bench $(lab_payload)
bench-fork: $(lab_needs) ; $(Q)tests/lab/bench-fork $(lab_payload)
lab: $(lab_needs) ; $(Q)tests/lab/shell $(lab_payload)

# On a simulated host, in virtual time: Xenpack's policy beside the published rules of others.
bench-balance: build/tests/balance_bench ; $(Q)$<
# What one decision costs on a host of 10 to 100,000 zones.
bench-scale: build/tests/scale_bench ; $(Q)$<

# ---- tests --------------------------------------------------------------------------------------

# In this order: what fails fast comes first, the lab last. Each is a target check-NAME.
quick_suites := includes spdx own-words whitespace format scripts unit bench plugin install asan \
    clang fuzz tidy
suite := tests/check/suite

.PHONY: check check-quick $(addprefix check-,$(quick_suites) lab)
check: suites := $(quick_suites) lab
check-quick: suites := $(quick_suites)
check check-quick:
	$(Q)rm -rf build/results; mkdir -p build/results; \
	for name in $(suites); do \
	    printf '\n== %s\n' "$$name"; \
	    $(MAKE) --no-print-directory --keep-going DEPS=no check-$$name || :; \
	done; \
	tests/check/summary $(suites)

check-includes: ; $(Q)$(suite) includes tests/check/includes
check-spdx: ; $(Q)$(suite) spdx tests/check/spdx
check-own-words: ; $(Q)$(suite) own-words tests/check/own-words
check-whitespace: ; $(Q)$(suite) whitespace tests/check/whitespace
check-format: ; $(Q)$(suite) format tests/check/format $(CLANG_FORMAT)

check-scripts: build/xenpack build/xenpackd build/xenpack-sim.so
	$(Q)$(suite) scripts.shellcheck tests/check/shell
	$(Q)$(suite) scripts.bats bats --tap $(wildcard tests/check/*.bats tests/scripts/*.bats)

check-unit: build/tests/unit
	$(Q)$(suite) unit tests/check/shards $<

check-bench: build/tests/balance_bench
	$(Q)$(suite) bench $< --check

# $(call run_plugin_tests,SUITE,DIR): each program's result is kept under its own name.
run_plugin_tests = $(Q)failed=0; for name in $(plugin_test_names); do \
    $(suite) $(1).$$name $(2)/tests/plugin/$$name || failed=1; done; exit $$failed

check-plugin: $(addprefix build/tests/plugin/,$(plugin_test_names))
	$(call run_plugin_tests,plugin,build)

check-asan: export ASAN_OPTIONS := detect_stack_use_after_return=1:strict_string_checks=1
check-asan: export UBSAN_OPTIONS := print_stacktrace=1
check-asan: build/asan/tests/unit $(addprefix build/asan/tests/plugin/,$(plugin_test_names))
	$(Q)$(suite) asan.unit tests/check/shards $<
	$(call run_plugin_tests,asan.plugin,build/asan)

# Everything is compiled by the second compiler, and what it made of the rooms is tested as well.
check-clang: build/clang/tests/unit build/clang/xenpackd build/clang/xenpack \
    build/clang/xenpack-libxl.so build/clang/xenpack-sim.so \
    $(call objects,build/clang,$(bench_main) $(guest_src) $(plugin_tests) $(plugin_test_parts) $(probe_src) $(hotplug_src))
	$(Q)$(suite) clang tests/check/shards $<

check-install: build/stage
	$(Q)$(suite) install tests/check/install build/stage "$(installed)"

# A bounded run each, from whatever corpus earlier runs have left in build/.
FUZZ_RUNS ?= 200000
FUZZ_SECONDS ?= 20
check-fuzz: $(addprefix build/fuzz/,$(fuzz_names))
	$(Q)failed=0; for name in $(fuzz_names); do \
	    mkdir -p build/fuzz/corpus/$$name; dictionary=tests/fuzz/$$name.dict; \
	    $(suite) fuzz.$$name build/fuzz/$$name -runs=$(FUZZ_RUNS) -max_total_time=$(FUZZ_SECONDS) \
	        -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_funcs=0 -print_final_stats=1 \
	        -artifact_prefix=build/fuzz/$$name-found- \
	        $$([[ -f $$dictionary ]] && echo "-dict=$$dictionary") \
	        build/fuzz/corpus/$$name || failed=1; \
	done; exit $$failed

# The object of the second compiler knows which headers a source depends on.
tidy_src := $(rooms_src) $(program_mains) $(filter-out $(program_mains),$(cli_src) $(guest_src)) \
    $(plugin_src) $(hotplug_src) $(sim_plugin_src)
tidy_src := $(sort $(tidy_src))
build/tidy/%.ok: %.cc .clang-tidy tests/check/tidy build/clang/obj/%.o
	@mkdir -p $(@D)
	$(call say,TIDY,$<)tests/check/tidy $(CLANG_TIDY) $(CLANGXX) $< $(required) && touch $@

check-tidy: $(addprefix build/tidy/,$(tidy_src:.cc=.ok))
	$(Q)$(suite) tidy printf "PASS %s\n" $(tidy_src)

# make check-lab CASE=name runs one.
check-lab: $(lab_needs)
	$(Q)$(suite) lab tests/lab/run $(lab_payload) $(CASE)

# ---- cleaning -----------------------------------------------------------------------------------

.PHONY: clean distclean help
clean:
	rm -rf build
distclean: clean
	rm -rf configure config.mk config.status config.log autom4te.cache

help:
	@printf '%s\n' \
	    'make              build everything into build/' \
	    'make demo         the main job on real Xen, in the lab: memory follows demand' \
	    'make check        every test; check-quick leaves out the lab' \
	    'make check-NAME   one suite: $(quick_suites) lab' \
	    'make check-lab CASE=NAME   one case of the lab' \
	    'make bench        what a decision costs, measured in the lab' \
	    'make bench-fork   what a fork costs beside xl create and xl restore, measured in the lab' \
	    'make bench-balance   how many zones fit, beside the rules of others; on a simulated host' \
	    'make bench-scale  what one decision costs, by how many zones there are' \
	    "make lab          a shell in the lab's dom0" \
	    'make deps         install the packages that building and testing need' \
	    'make install      to / or to DESTDIR=; uninstall takes it away again' \
	    'make clean        removes build/; distclean also what ./configure wrote' \
	    '' \
	    'V=1 shows commands. CXX, CXXFLAGS, CPPFLAGS, LDFLAGS, WERROR= are honoured. DEPS=no never' \
	    'calls apt. FUZZ_SECONDS=20 bounds each fuzz target.'
