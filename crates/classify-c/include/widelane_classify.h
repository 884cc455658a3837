/* Packet classification with Widelane: written by cbindgen from crates/classify-c. */

#ifndef WIDELANE_CLASSIFY_H
#define WIDELANE_CLASSIFY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/**
 * What a call came to.
 */
typedef enum widelane_status {
  /**
   * The job was done.
   */
  WIDELANE_STATUS_OK = 0,
  /**
   * An argument is wrong: null, or no text, or out of range.
   */
  WIDELANE_STATUS_ARGUMENT = 1,
  /**
   * A rule cannot be read; the message has its line and column.
   */
  WIDELANE_STATUS_PARSE = 2,
  /**
   * No table can be built of the rules.
   */
  WIDELANE_STATUS_BUILD = 3,
  /**
   * A table cannot be read or written, or is damaged.
   */
  WIDELANE_STATUS_TABLE = 4,
  /**
   * A packet is too short, or there are not enough places for results.
   */
  WIDELANE_STATUS_LOOKUP = 5,
  /**
   * There is no such rule.
   */
  WIDELANE_STATUS_NO_SUCH_RULE = 6,
  /**
   * A defect of this library; please report it.
   */
  WIDELANE_STATUS_DEFECT = 7,
} widelane_status;

/**
 * How rules are written.
 */
typedef enum widelane_format {
  /**
   * Rules of DPDK's l3fwd-acl.
   */
  WIDELANE_FORMAT_DPDK = 0,
  /**
   * ClassBench filters.
   */
  WIDELANE_FORMAT_CLASSBENCH = 1,
  /**
   * Comma-separated values with a line of column names.
   */
  WIDELANE_FORMAT_CSV = 2,
  /**
   * What iptables-save and ip6tables-save write.
   */
  WIDELANE_FORMAT_IPTABLES = 3,
  /**
   * What nft list ruleset writes.
   */
  WIDELANE_FORMAT_NFTABLES = 4,
} widelane_format;

/**
 * How a field is compared.
 */
typedef enum widelane_match_kind {
  /**
   * The bits of `second` that are set are those of `first`.
   */
  WIDELANE_MATCH_KIND_MASK = 0,
  /**
   * It lies between `first` and `second`, both included.
   */
  WIDELANE_MATCH_KIND_RANGE = 1,
} widelane_match_kind;

/**
 * Looks packets up in a table; may be used by several threads at once.
 */
typedef struct widelane_classifier widelane_classifier;

/**
 * A rule set that changes while packets are looked up; may be used by several threads at once.
 */
typedef struct widelane_live widelane_live;

/**
 * Looks packets up in a live set; each thread has one of its own.
 */
typedef struct widelane_reader widelane_reader;

/**
 * A set of rules.
 */
typedef struct widelane_rules widelane_rules;

/**
 * A table of rules.
 */
typedef struct widelane_table widelane_table;

/**
 * What one field must be. Values are in network byte order and end with the last byte.
 */
typedef struct widelane_match {
  /**
   * One of `widelane_match_kind`.
   */
  uint32_t kind;
  /**
   * The value, or the lowest value.
   */
  uint8_t first[16];
  /**
   * The mask, or the highest value.
   */
  uint8_t second[16];
} widelane_match;

/**
 * One rule.
 */
typedef struct widelane_rule {
  /**
   * One match for each field of the set, in its order.
   */
  const struct widelane_match *matches;
  /**
   * How many there are.
   */
  size_t match_count;
  /**
   * The highest priority wins; of equal ones, the rule that was there first.
   */
  int32_t priority;
  /**
   * One bit for each category that the rule belongs to.
   */
  uint16_t categories;
  /**
   * What a packet gets whose best rule this is.
   */
  uint32_t result;
} widelane_rule;

/**
 * The first bytes of a packet, from its IP header on.
 */
typedef struct widelane_packet {
  /**
   * The first byte.
   */
  const uint8_t *bytes;
  /**
   * How many there are.
   */
  size_t length;
} widelane_packet;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Begins a live set, whose rules have the numbers from 0 in their order. `table_bytes` and
 * `width_max` are as for tables and classifiers.
 *
 * # Safety
 *
 * `rules` is a set that is not freed, and `live` can be written to.
 */
enum widelane_status widelane_live_new(const struct widelane_rules *rules,
                                       size_t table_bytes,
                                       uint32_t width_max,
                                       struct widelane_live **live);

/**
 * Adds a rule behind those of its priority, and tells its number. Readers see it when this
 * returns.
 *
 * # Safety
 *
 * `live` is one that is not freed, `rule` has the matches that it says, and `id` can be written
 * to.
 */
enum widelane_status widelane_live_insert(const struct widelane_live *live,
                                          const struct widelane_rule *rule,
                                          uint64_t *id);

/**
 * Takes a rule away. No reader sees it when this returns.
 *
 * # Safety
 *
 * `live` is one that is not freed.
 */
enum widelane_status widelane_live_remove(const struct widelane_live *live, uint64_t id);

/**
 * Replaces a rule by another, in one step; it keeps its number.
 *
 * # Safety
 *
 * `live` is one that is not freed, and `rule` has the matches that it says.
 */
enum widelane_status widelane_live_change(const struct widelane_live *live,
                                          uint64_t id,
                                          const struct widelane_rule *rule);

/**
 * Replaces all rules, in one step, once a table of them is built. They get the next numbers.
 *
 * # Safety
 *
 * `live` and `rules` are ones that are not freed.
 */
enum widelane_status widelane_live_replace(const struct widelane_live *live,
                                           const struct widelane_rules *rules);

/**
 * Frees a live set; readers of it go on with its last version.
 *
 * # Safety
 *
 * `live` is null or one that is not freed.
 */
void widelane_live_free(struct widelane_live *live);

/**
 * Makes a reader of a live set.
 *
 * # Safety
 *
 * `live` is one that is not freed, and `reader` can be written to.
 */
enum widelane_status widelane_live_reader(const struct widelane_live *live,
                                          struct widelane_reader **reader);

/**
 * Looks up packets in the latest version, all in the same, as `widelane_classifier_classify` does,
 * and tells its number unless `version` is null.
 *
 * # Safety
 *
 * `reader` is one that is not freed and that no other thread uses now; there are as many packets
 * and results as said, and as many bytes as each packet says; `version` is null or can be written
 * to.
 */
enum widelane_status widelane_reader_classify(struct widelane_reader *reader,
                                              const struct widelane_packet *packets,
                                              size_t packet_count,
                                              uint32_t *results,
                                              size_t result_count,
                                              uint64_t *version);

/**
 * Frees a reader.
 *
 * # Safety
 *
 * `reader` is null or one that is not freed.
 */
void widelane_reader_free(struct widelane_reader *reader);

/**
 * Reads the text of a rule file; `format` is one of `widelane_format`, and `file` is what messages
 * call it.
 *
 * # Safety
 *
 * `file` and `text` end with a zero, and `rules` can be written to.
 */
enum widelane_status widelane_rules_parse(uint32_t format,
                                          const char *file,
                                          const char *text,
                                          struct widelane_rules **rules);

/**
 * How many rules there are; 0 for null.
 *
 * # Safety
 *
 * `rules` is null or a set that is not freed.
 */
size_t widelane_rules_count(const struct widelane_rules *rules);

/**
 * Frees a set.
 *
 * # Safety
 *
 * `rules` is null or a set that is not freed.
 */
void widelane_rules_free(struct widelane_rules *rules);

/**
 * Why the last call of this thread failed that did. Valid until another one fails.
 */
const char *widelane_last_error(void);

/**
 * Builds a table of at most `table_bytes` bytes; 0 is 256 MiB.
 *
 * # Safety
 *
 * `rules` is a set that is not freed, and `table` can be written to.
 */
enum widelane_status widelane_table_build(const struct widelane_rules *rules,
                                          size_t table_bytes,
                                          struct widelane_table **table);

/**
 * Maps a table that was written to a file.
 *
 * # Safety
 *
 * `path` ends with a zero, and `table` can be written to.
 */
enum widelane_status widelane_table_open(const char *path, struct widelane_table **table);

/**
 * Writes a table to a file.
 *
 * # Safety
 *
 * `table` is one that is not freed, and `path` ends with a zero.
 */
enum widelane_status widelane_table_write(const struct widelane_table *table, const char *path);

/**
 * How many results a lookup gives for each packet; 0 for null.
 *
 * # Safety
 *
 * `table` is null or one that is not freed.
 */
size_t widelane_table_categories(const struct widelane_table *table);

/**
 * Frees a table; classifiers that use it go on.
 *
 * # Safety
 *
 * `table` is null or one that is not freed.
 */
void widelane_table_free(struct widelane_table *table);

/**
 * Chooses the widest room that the machine has, with registers of at most `width_max` bits: 128,
 * 256 or 512, or 0 for no limit.
 *
 * # Safety
 *
 * `table` is one that is not freed, and `classifier` can be written to.
 */
enum widelane_status widelane_classifier_choose(const struct widelane_table *table,
                                                uint32_t width_max,
                                                struct widelane_classifier **classifier);

/**
 * Looks up packets; `results` has a place for each category of each packet, `result_count` in all.
 *
 * # Safety
 *
 * `classifier` is one that is not freed; there are as many packets and results as said, and as
 * many bytes as each packet says.
 */
enum widelane_status widelane_classifier_classify(const struct widelane_classifier *classifier,
                                                  const struct widelane_packet *packets,
                                                  size_t packet_count,
                                                  uint32_t *results,
                                                  size_t result_count);

/**
 * Frees a classifier.
 *
 * # Safety
 *
 * `classifier` is null or one that is not freed.
 */
void widelane_classifier_free(struct widelane_classifier *classifier);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WIDELANE_CLASSIFY_H */
