/* A program in C that uses all of libwidelane_c for packets; tests/c.rs compiles and runs it. */
#include <stdio.h>
#include <string.h>

#include "widelane.h"

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, widelane_last_error());   \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

#define OK WIDELANE_STATUS_OK

static const char *const RULES =
    "R10.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0/0 1\n"
    "R0.0.0.0/0 192.168.0.0/16 0 : 65535 0 : 65535 0/0 2\n";

/* The first bytes of an IPv4 packet over TCP. */
static void packet(unsigned char *bytes, unsigned char first, unsigned char destination) {
    memset(bytes, 0, 24);
    bytes[0] = 0x45;
    bytes[9] = 6;
    bytes[12] = first;
    bytes[16] = destination;
    bytes[17] = 168;
}

int main(void) {
    unsigned char bytes[3][24];
    packet(bytes[0], 10, 1);
    packet(bytes[1], 11, 192);
    packet(bytes[2], 11, 1);
    widelane_packet packets[3];
    for (int i = 0; i < 3; i++) {
        packets[i].bytes = bytes[i];
        packets[i].length = sizeof bytes[i];
    }
    uint32_t results[3];

    widelane_rules *rules = NULL;
    CHECK(widelane_rules_parse(WIDELANE_FORMAT_DPDK, "bad", "X", &rules) == WIDELANE_STATUS_PARSE);
    CHECK(strstr(widelane_last_error(), "bad:1:1: expected") != NULL);
    CHECK(widelane_rules_parse(99, "r", RULES, &rules) == WIDELANE_STATUS_ARGUMENT);
    CHECK(widelane_rules_parse(WIDELANE_FORMAT_DPDK, "r", RULES, &rules) == OK);
    CHECK(widelane_rules_count(rules) == 2);

    widelane_table *built = NULL, *table = NULL;
    CHECK(widelane_table_build(rules, 16, &built) == WIDELANE_STATUS_BUILD);
    CHECK(widelane_table_build(rules, 0, &built) == OK);
    CHECK(widelane_table_open("table", &table) == WIDELANE_STATUS_TABLE);
    CHECK(widelane_table_write(built, "table") == OK);
    CHECK(widelane_table_open("table", &table) == OK);
    CHECK(widelane_table_categories(table) == 1);
    widelane_table_free(built);

    widelane_classifier *classifier = NULL;
    CHECK(widelane_classifier_choose(table, 100, &classifier) == WIDELANE_STATUS_ARGUMENT);
    CHECK(widelane_classifier_choose(table, 0, &classifier) == OK);
    widelane_table_free(table);
    CHECK(widelane_classifier_classify(classifier, packets, 3, results, 2) ==
          WIDELANE_STATUS_LOOKUP);
    CHECK(widelane_classifier_classify(NULL, packets, 3, results, 3) == WIDELANE_STATUS_ARGUMENT);
    CHECK(widelane_classifier_classify(classifier, packets, 3, results, 3) == OK);
    CHECK(results[0] == 1 && results[1] == 2 && results[2] == UINT32_MAX);
    widelane_classifier_free(classifier);

    widelane_live *live = NULL;
    widelane_reader *reader = NULL;
    CHECK(widelane_live_new(rules, 0, 256, &live) == OK);
    CHECK(widelane_live_reader(live, &reader) == OK);
    widelane_match matches[5];
    memset(matches, 0, sizeof matches);
    matches[0].first[12] = 11;
    matches[0].second[12] = 255;
    matches[2].kind = WIDELANE_MATCH_KIND_RANGE;
    matches[2].second[14] = matches[2].second[15] = 255;
    widelane_rule rule = {.matches = matches, .match_count = 5, .priority = 1, .categories = 1,
                          .result = 7};
    uint64_t id = 0, version = 0;
    CHECK(widelane_live_insert(live, &rule, &id) == OK && id == 2);
    CHECK(widelane_reader_classify(reader, packets, 3, results, 3, &version) == OK);
    CHECK(version == 1 && results[0] == 1 && results[1] == 7 && results[2] == 7);
    rule.result = 0;
    CHECK(widelane_live_change(live, id, &rule) == OK);
    rule.match_count = 4;
    CHECK(widelane_live_change(live, id, &rule) == WIDELANE_STATUS_BUILD);
    CHECK(widelane_reader_classify(reader, packets, 3, results, 3, NULL) == OK);
    CHECK(results[1] == 0 && results[2] == 0);
    CHECK(widelane_live_remove(live, id) == OK);
    CHECK(widelane_live_remove(live, id) == WIDELANE_STATUS_NO_SUCH_RULE);
    CHECK(widelane_live_replace(live, rules) == OK);
    CHECK(widelane_reader_classify(reader, packets, 3, results, 3, &version) == OK);
    CHECK(version == 4 && results[0] == 1 && results[1] == 2 && results[2] == UINT32_MAX);

    widelane_live_free(live);
    widelane_reader_free(reader);
    widelane_rules_free(rules);
    widelane_rules_free(NULL);
    puts("done");
    return 0;
}
