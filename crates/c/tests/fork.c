/* A program in C that forks with a live set; tests/c.rs compiles and runs it. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static widelane_rules *rules;
static widelane_live *live;
static widelane_reader *reader;

/* A rule for ports up to 20000 and more, all of one priority: trees take few of these at a time. */
static widelane_status insert(unsigned number, uint32_t result, uint64_t *id) {
    widelane_match matches[5];
    memset(matches, 0, sizeof matches);
    matches[3] = (widelane_match){.kind = WIDELANE_MATCH_KIND_RANGE, .first = {[15] = 1}};
    matches[3].second[14] = (20000 + number) / 256;
    matches[3].second[15] = (20000 + number) % 256;
    widelane_rule rule = {.matches = matches, .match_count = 5, .priority = 5, .categories = 1,
                          .result = result};
    return widelane_live_insert(live, &rule, id);
}

/* The result of a packet to port 2. */
static uint32_t result(void) {
    unsigned char bytes[24] = {[0] = 0x45, [9] = 6, [12] = 11, [23] = 2};
    widelane_packet packet = {.bytes = bytes, .length = sizeof bytes};
    uint32_t result = 0;
    widelane_status status = widelane_reader_classify(reader, &packet, 1, &result, 1, NULL);
    return status == OK ? result : 0;
}

/* Whether a child does what it should, in its time. */
static int in_child(int (*work)(void)) {
    pid_t child = fork();
    if (child == 0) {
        alarm(120);
        _exit(work());
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

static int frees(void) {
    CHECK(result() == 7);
    widelane_live_free(live);
    CHECK(result() == 7);
    return 0;
}

static int inserts(void) {
    uint64_t id;
    CHECK(insert(12000, 8, &id) == OK && result() == 8 && widelane_live_trouble(live) == OK);
    return 0;
}

/* More than trees and lists take without a thread that rebuilds them. */
static int changes(void) {
    CHECK(result() == 7 && widelane_live_trouble(live) == OK);
    uint64_t id, first = 0;
    CHECK(widelane_live_remove(live, 3000) == OK && result() == UINT32_MAX);
    for (unsigned i = 0; i < 12000; i++) {
        CHECK(insert(i, 8, &id) == OK);
        /* The thread is at work then. */
        CHECK(i % 4000 != 3999 || in_child(inserts) == 0);
    }
    CHECK(result() == 8);
    CHECK(widelane_live_replace_numbered(live, rules, &first) == OK && first == 15001);
    CHECK(result() == UINT32_MAX && insert(0, 9, &id) == OK && result() == 9);
    return 0;
}

static int replaces(void) {
    for (int i = 0; i < 5; i++) {
        CHECK(widelane_live_replace(live, rules) == OK && result() == UINT32_MAX);
    }
    return 0;
}

static int forks(void) {
    return in_child(changes);
}

static atomic_bool done;

static void *change(void *unused) {
    while (!done) {
        uint64_t id;
        if (insert(1, 7, &id) != OK || widelane_live_remove(live, id) != OK) {
            abort();
        }
    }
    return unused;
}

/* The rules may have been half changed; lookups go on. */
static int is_refused_or_changes(void) {
    CHECK(result() == 7);
    for (int i = 0; i < 2; i++) {
        uint64_t id;
        widelane_status status = insert(0, 7, &id);
        CHECK(status == OK || status == WIDELANE_STATUS_FORKED);
    }
    CHECK(widelane_live_trouble(live) == OK && result() == 7);
    return 0;
}

int main(void) {
    static char text[1 << 18];
    size_t length = 0;
    for (int i = 0; i < 3000; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "R10.%d.%d.0/24 0.0.0.0/0 0 : 65535 %d : %d 6/0xff 1\n",
                                   i / 256, i % 256, i, i + 1);
    }
    CHECK(widelane_rules_parse(WIDELANE_FORMAT_DPDK, "r", text, &rules) == OK);
    CHECK(widelane_live_new(rules, 0, 0, &live) == OK);
    CHECK(widelane_live_reader(live, &reader) == OK);
    uint64_t id;
    CHECK(insert(0, 7, &id) == OK && id == 3000 && result() == 7);
    CHECK(in_child(frees) == 0);
    CHECK(in_child(changes) == 0);
    CHECK(in_child(replaces) == 0);
    CHECK(in_child(forks) == 0);
    CHECK(insert(0, 6, &id) == OK && result() == 7);

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, change, NULL) == 0);
    for (int i = 0; i < 30; i++) {
        CHECK(in_child(is_refused_or_changes) == 0);
    }
    done = true;
    CHECK(pthread_join(thread, NULL) == 0);
    widelane_live_free(live);
    widelane_reader_free(reader);
    widelane_rules_free(rules);
    puts("done");
    return 0;
}
