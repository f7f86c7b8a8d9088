# SPDX-License-Identifier: GPL-3.0-or-later
# Objects go to build/$(VARIANT)/; variants: release, asan, tsan.

VARIANT ?= release
CC      ?= gcc
B       := build/$(VARIANT)

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wconversion
PKGS := wiredtiger libbson-1.0 libcrypto libpcre2-8 yaml-0.1
ifdef WT_PREFIX
WT_CFLAGS := -I$(WT_PREFIX)/include
WT_LIBS   := -L$(WT_PREFIX)/lib -Wl,-rpath,$(WT_PREFIX)/lib
endif

CFLAGS_release := -O2 -g
CFLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
CFLAGS_tsan    := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
ALL_CFLAGS  = -std=gnu17 -D_GNU_SOURCE -I. $(WARN) $(WERROR) $(CFLAGS_$(VARIANT)) $(WT_CFLAGS) \
	$(shell pkg-config --cflags $(PKGS)) $(CFLAGS)
ALL_LIBS    = $(WT_LIBS) $(shell pkg-config --libs $(PKGS)) -lbidgcc000 -lpthread -lm -ldl $(LDFLAGS)

LIB_SRC  := $(filter-out server/main.c,$(wildcard base/*.c wire/*.c storage/*.c oplog/*.c query/*.c \
	query/stages/*.c server/*.c server/commands/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/%.o)
MAIN_OBJ := $(B)/server/main.o
UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(UNIT_SRC:%.c=$(B)/%)

all: $(B)/runneld

$(B)/librunnel.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/runneld: $(MAIN_OBJ) $(B)/librunnel.a
	$(CC) $(ALL_CFLAGS) -rdynamic -o $@ $^ $(ALL_LIBS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# A unit test links the library's objects that it needs.
$(B)/tests/unit/%: tests/unit/%.c $(B)/librunnel.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -o $@ $< $(B)/librunnel.a $(ALL_LIBS) -lcmocka

lib: $(B)/librunnel.a

unit: $(UNIT_BIN)
	@set -e; for t in $(UNIT_BIN); do $$t; done

clean:
	rm -rf build

.PHONY: all lib unit clean
-include $(LIB_OBJ:.o=.d) $(MAIN_OBJ:.o=.d) $(UNIT_BIN:=.d)
