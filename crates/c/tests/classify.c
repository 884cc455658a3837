/* A program in C that uses all of libwidelane_c for packets; tests/c.rs compiles and runs it. */
#include <string.h>
#include <time.h>

#include "check.h"

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

/* Parses a packet, and looks it up. */
static widelane_status look_up(const widelane_classifier *classifier, uint32_t link,
                               const unsigned char *bytes, size_t length, uint32_t *result) {
    widelane_flow flow;
    widelane_status status = widelane_flow_parse(link, bytes, length, &flow);
    if (status != OK) {
        return status;
    }
    widelane_packet packet = {.bytes = flow.bytes, .length = flow.length};
    return widelane_classifier_classify(classifier, &packet, 1, result, 1);
}

/* A function that fails writes NULL to its place. */
#define CHECK_NULL(type, call)                                                                    \
    do {                                                                                          \
        type *place = (type *)&unset;                                                             \
        CHECK((call) == WIDELANE_STATUS_ARGUMENT && place == NULL);                               \
    } while (0)

static int failures(void) {
    static long unset;
    CHECK_NULL(widelane_rules, widelane_rules_parse(99, "r", RULES, &place));
    CHECK_NULL(widelane_table, widelane_table_build(NULL, 0, &place));
    CHECK_NULL(widelane_table, widelane_table_open(NULL, &place));
    CHECK_NULL(widelane_classifier, widelane_classifier_choose(NULL, 0, &place));
    CHECK_NULL(widelane_live, widelane_live_new(NULL, 0, 0, &place));
    CHECK_NULL(widelane_reader, widelane_live_reader(NULL, &place));
    CHECK(widelane_table_open("table", NULL) == WIDELANE_STATUS_ARGUMENT);
    return 0;
}

/* What senders can do to their packets, against rules that deny port 80 of TCP. */
static int parse(void) {
    static const char *const deny[2] = {
        "@0.0.0.0/0 0.0.0.0/0 0 : 65535 80 : 80 6/0xff\nR0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0/0 1\n",
        "@::/0 ::/0 0 : 65535 80 : 80 6/0xff\nR::/0 ::/0 0 : 65535 0 : 65535 0/0 1\n"};
    widelane_classifier *classifiers[2];
    for (int v6 = 0; v6 < 2; v6++) {
        widelane_rules *rules = NULL;
        widelane_table *table = NULL;
        CHECK(widelane_rules_parse(WIDELANE_FORMAT_DPDK, "deny", deny[v6], &rules) == OK);
        CHECK(widelane_rules_is_ipv6(rules) == (v6 == 1));
        CHECK(widelane_table_build(rules, 0, &table) == OK);
        CHECK(widelane_table_is_ipv6(table) == (v6 == 1));
        CHECK(widelane_classifier_choose(table, 0, &classifiers[v6]) == OK);
        widelane_table_free(table);
        widelane_rules_free(rules);
    }
    CHECK(!widelane_table_is_ipv6(NULL) && !widelane_rules_is_ipv6(NULL));

    const uint32_t denied = 0xf0000000;
    uint32_t result = 0;
    widelane_flow flow;
    /* An Ethernet header with a VLAN tag; IPv4 with four bytes of options; ports 1000 and 80. */
    unsigned char v4[46] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 7, 8, 0,
                            0x46, 0, 0, 28, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 2, 3, 10, 4, 5, 6,
                            1, 1, 1, 0, 3, 0xe8, 0, 80};
    CHECK(look_up(classifiers[0], WIDELANE_LINK_ETHERNET, v4, 46, &result) == OK);
    CHECK(result == denied);
    CHECK(look_up(classifiers[0], WIDELANE_LINK_IP, v4 + 18, 28, &result) == OK);
    CHECK(result == denied);
    CHECK(look_up(classifiers[0], WIDELANE_LINK_IP, v4 + 18, 27, &result) == WIDELANE_STATUS_CUT);
    /* A later fragment has no ports. */
    v4[25] = 8;
    CHECK(widelane_flow_parse(WIDELANE_LINK_IP, v4 + 18, 28, &flow) == OK);
    CHECK(flow.is_later_fragment && !flow.is_ipv6 && flow.length == 24);
    CHECK(memcmp(flow.bytes + 20, "\0\0\0\0", 4) == 0 && flow.bytes[9] == 6);
    v4[25] = 0;
    v4[21] = 23;
    CHECK(look_up(classifiers[0], WIDELANE_LINK_ETHERNET, v4, 46, &result) ==
          WIDELANE_STATUS_MALFORMED);
    CHECK(strstr(widelane_last_error(), "contradict") != NULL);
    v4[17] = 6;
    CHECK(look_up(classifiers[0], WIDELANE_LINK_ETHERNET, v4, 46, &result) ==
          WIDELANE_STATUS_NOT_IP);

    /* IPv6 with destination options. */
    unsigned char v6[52] = {0x60, 0, 0, 0, 0, 12, 60, 64};
    memcpy(v6 + 40, "\6\0\1\4\0\0\0\0\3\350\0\120", 12);
    CHECK(look_up(classifiers[1], WIDELANE_LINK_IP, v6, 52, &result) == OK && result == denied);
    CHECK(widelane_flow_parse(WIDELANE_LINK_IP, v6, 52, &flow) == OK);
    CHECK(flow.is_ipv6 && !flow.is_later_fragment && flow.length == 44 && flow.bytes[6] == 6);
    v6[51] = 81;
    CHECK(look_up(classifiers[1], WIDELANE_LINK_IP, v6, 52, &result) == OK && result == 1);

    CHECK(widelane_flow_parse(2, v6, 52, &flow) == WIDELANE_STATUS_ARGUMENT);
    CHECK(widelane_flow_parse(WIDELANE_LINK_IP, v6, 52, NULL) == WIDELANE_STATUS_ARGUMENT);
    CHECK(widelane_flow_parse(WIDELANE_LINK_IP, NULL, 52, &flow) == WIDELANE_STATUS_ARGUMENT);
    CHECK(widelane_flow_parse(WIDELANE_LINK_IP, NULL, 0, &flow) == WIDELANE_STATUS_CUT);
    widelane_classifier_free(classifiers[0]);
    widelane_classifier_free(classifiers[1]);
    return 0;
}

int main(void) {
    if (failures() != 0 || parse() != 0) {
        return 1;
    }
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
    /* What is asked of null does not fail, and leaves the text of the last error. */
    const char *why = widelane_last_error();
    CHECK(widelane_rules_count(rules) == 0 && widelane_rules_categories(rules) == 0);
    CHECK(!widelane_rules_is_ipv6(rules) && !widelane_table_is_ipv6(NULL));
    CHECK(widelane_table_categories(NULL) == 0);
    CHECK(widelane_last_error() == why && strstr(why, "bad:1:1: expected") != NULL);
    CHECK(widelane_rules_parse(99, "r", RULES, &rules) == WIDELANE_STATUS_ARGUMENT);
    /* A zero byte is refused; a comment, or the name of a file, may be in another encoding. */
    static const unsigned char cut[] =
        "R10.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0/0 1\n\0@0.0.0.0/0";
    CHECK(widelane_rules_parse_bytes(WIDELANE_FORMAT_DPDK, "r\xe9", cut, sizeof cut, &rules) ==
          WIDELANE_STATUS_PARSE);
    CHECK(strstr(widelane_last_error(), ":2:1: expected") != NULL);
    static const unsigned char csv[] = "# \xe9\nsource,result,categories\n10.0.0.0/8,1,1\n";
    CHECK(widelane_rules_parse_bytes(WIDELANE_FORMAT_CSV, "r", csv, sizeof csv - 1, &rules) == OK);
    CHECK(widelane_rules_count(rules) == 1 && widelane_rules_categories(rules) == 2);
    widelane_rules_free(rules);
    CHECK(widelane_rules_parse_bytes(WIDELANE_FORMAT_CSV, "r", NULL, 1, &rules) ==
          WIDELANE_STATUS_ARGUMENT);
    CHECK(widelane_rules_parse(WIDELANE_FORMAT_DPDK, "r", RULES, &rules) == OK);
    CHECK(widelane_rules_count(rules) == 2 && widelane_rules_categories(rules) == 1);

    widelane_table *built = NULL, *table = NULL;
    CHECK(widelane_table_build(rules, 16, &built) == WIDELANE_STATUS_BUILD);
    CHECK(widelane_table_build(rules, 0, &built) == OK);
    CHECK(widelane_table_open("table", &table) == WIDELANE_STATUS_TABLE);
    CHECK(strstr(widelane_last_error(), "table: cannot read the table: No such file") != NULL);
    CHECK(widelane_table_write(built, "table") == OK);
    CHECK(widelane_table_open("table", &table) == OK);
    CHECK(widelane_table_categories(table) == 1);
    /* The table that is mapped stays, whatever takes its file's place. */
    CHECK(widelane_table_write(built, "table") == OK);
    CHECK(widelane_table_write(built, "no/such/place") == WIDELANE_STATUS_TABLE);
    CHECK(strstr(widelane_last_error(), "no/such/place: No such file") != NULL);
    /* A path is bytes. */
    widelane_table *again = NULL;
    CHECK(widelane_table_write(built, "t\xe9.table") == OK);
    CHECK(widelane_table_open("t\xe9.table", &again) == OK);
    widelane_table_free(again);
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
    rule.categories = 0;
    CHECK(widelane_live_insert(live, &rule, &id) == WIDELANE_STATUS_BUILD && id == 2);
    CHECK(widelane_live_change(live, id, &rule) == WIDELANE_STATUS_BUILD);
    CHECK(strcmp(widelane_last_error(),
                 "a rule is in none of the categories that the set has") == 0);
    rule.categories = 1;
    CHECK(widelane_reader_classify(reader, packets, 3, results, 3, &version) == OK);
    CHECK(version == 1 && results[0] == 1 && results[1] == 7 && results[2] == 7);
    rule.result = 0;
    CHECK(widelane_live_change(live, id, &rule) == OK);
    rule.match_count = 4;
    CHECK(widelane_live_change(live, id, &rule) == WIDELANE_STATUS_BUILD);
    rule.match_count = 5;
    /* 2001:db8::/32 in place of an IPv4 source. */
    matches[0] = (widelane_match){.kind = WIDELANE_MATCH_KIND_MASK,
                                  .first = {0x20, 0x01, 0x0d, 0xb8},
                                  .second = {0xff, 0xff, 0xff, 0xff}};
    CHECK(widelane_live_insert(live, &rule, &id) == WIDELANE_STATUS_BUILD && id == 2);
    CHECK(widelane_live_change(live, id, &rule) == WIDELANE_STATUS_BUILD);
    CHECK(widelane_reader_classify(reader, packets, 3, results, 3, NULL) == OK);
    CHECK(results[1] == 0 && results[2] == 0);
    CHECK(widelane_live_remove(live, id) == OK);
    CHECK(widelane_live_remove(live, id) == WIDELANE_STATUS_NO_SUCH_RULE);
    CHECK(widelane_live_replace(live, rules) == OK);
    CHECK(widelane_reader_classify(reader, packets, 3, results, 3, &version) == OK);
    CHECK(version == 4 && results[0] == 1 && results[1] == 2 && results[2] == UINT32_MAX);

    uint64_t first = 0;
    CHECK(widelane_live_replace_numbered(live, rules, &first) == OK && first == 5);
    CHECK(widelane_live_remove(live, first + 1) == OK);
    CHECK(widelane_live_trouble(live) == OK);

    widelane_live_free(live);
    widelane_reader_free(reader);

    /* A live set with room for few rules more. */
    CHECK(widelane_live_trouble(NULL) == WIDELANE_STATUS_ARGUMENT);
    size_t table_bytes = 1024;
    while (widelane_live_new(rules, table_bytes, 256, &live) != OK) {
        table_bytes += 1024;
    }
    matches[0] = (widelane_match){.kind = WIDELANE_MATCH_KIND_MASK};
    memset(matches[0].second + 12, 255, 4);
    rule.match_count = 5;
    for (unsigned i = 0; i < 2000; i++) {
        matches[0].first[12] = 10;
        matches[0].first[13] = i / 256;
        matches[0].first[14] = i % 256;
        CHECK(widelane_live_insert(live, &rule, &id) == OK);
    }
    time_t end = time(NULL) + 30;
    while (widelane_live_trouble(live) == OK && time(NULL) < end) {
    }
    CHECK(widelane_live_trouble(live) == WIDELANE_STATUS_BUILD);
    CHECK(strlen(widelane_last_error()) > 0);
    widelane_live_free(live);
    widelane_rules_free(rules);
    widelane_rules_free(NULL);
    puts("done");
    return 0;
}
