/* Widelane for C: written by cbindgen from crates/c.
 *
 * A function that makes something and fails writes NULL to its place. A batch that is refused as a
 * whole gives every job the status that the call returns. docs/program/c.md has the rest. */

#ifndef WIDELANE_H
#define WIDELANE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/**
 * Status of a call or a job.
 */
typedef enum widelane_status {
  /**
   * The job was done.
   */
  WIDELANE_STATUS_OK = 0,
  /**
   * An argument is wrong: null, or out of range, or of a wrong length.
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
  /**
   * A key is damaged, or of a kind that is not supported.
   */
  WIDELANE_STATUS_KEY = 8,
  /**
   * A tag, a signature, a record or a peer's key is not a good one.
   */
  WIDELANE_STATUS_REJECTED = 9,
  /**
   * A result failed its check and did not leave: a fault of the machine, or a damaged key.
   */
  WIDELANE_STATUS_FAULT = 10,
  /**
   * A packet is neither IPv4 nor IPv6.
   */
  WIDELANE_STATUS_NOT_IP = 11,
  /**
   * A packet ends before its ports do.
   */
  WIDELANE_STATUS_CUT = 12,
  /**
   * The headers of a packet contradict themselves.
   */
  WIDELANE_STATUS_MALFORMED = 13,
  /**
   * A thread was changing the rules when this process was forked; lookups go on.
   */
  WIDELANE_STATUS_FORKED = 14,
} widelane_status;

/**
 * An algorithm of authenticated encryption.
 */
typedef enum widelane_aead_algorithm {
  /**
   * AES-GCM with a key of 16 bytes.
   */
  WIDELANE_AEAD_ALGORITHM_AES128_GCM = 0,
  /**
   * AES-GCM with a key of 24 bytes.
   */
  WIDELANE_AEAD_ALGORITHM_AES192_GCM = 1,
  /**
   * AES-GCM with a key of 32 bytes.
   */
  WIDELANE_AEAD_ALGORITHM_AES256_GCM = 2,
  /**
   * ChaCha20-Poly1305, with a key of 32 bytes.
   */
  WIDELANE_AEAD_ALGORITHM_CHACHA20_POLY1305 = 3,
} widelane_aead_algorithm;

/**
 * An algorithm of AES-CBC with HMAC.
 */
typedef enum widelane_cbc_hmac_algorithm {
  /**
   * AES with a key of 16 bytes, HMAC-SHA-1.
   */
  WIDELANE_CBC_HMAC_ALGORITHM_AES128_SHA1 = 0,
  /**
   * AES with a key of 32 bytes, HMAC-SHA-1.
   */
  WIDELANE_CBC_HMAC_ALGORITHM_AES256_SHA1 = 1,
  /**
   * AES with a key of 16 bytes, HMAC-SHA-256.
   */
  WIDELANE_CBC_HMAC_ALGORITHM_AES128_SHA256 = 2,
  /**
   * AES with a key of 32 bytes, HMAC-SHA-256.
   */
  WIDELANE_CBC_HMAC_ALGORITHM_AES256_SHA256 = 3,
} widelane_cbc_hmac_algorithm;

/**
 * What is authenticated.
 */
typedef enum widelane_cbc_hmac_mode {
  /**
   * The text, whose tag is encrypted with it (RFC 5246, 6.2.3.2).
   */
  WIDELANE_CBC_HMAC_MODE_MAC_THEN_ENCRYPT = 0,
  /**
   * The ciphertext and the IV that the record brings, from TLS 1.1 on; the tag stands behind
   * them (RFC 7366).
   */
  WIDELANE_CBC_HMAC_MODE_ENCRYPT_THEN_MAC = 1,
} widelane_cbc_hmac_mode;

/**
 * An elliptic curve.
 */
typedef enum widelane_curve {
  /**
   * NIST P-256, whose coordinates have 32 bytes.
   */
  WIDELANE_CURVE_P256 = 0,
  /**
   * NIST P-384, whose coordinates have 48 bytes.
   */
  WIDELANE_CURVE_P384 = 1,
} widelane_curve;

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
 * A hash function.
 */
typedef enum widelane_hash_algorithm {
  /**
   * SHA-1, whose digest has 20 bytes; as the hash of a signature it is broken.
   */
  WIDELANE_HASH_ALGORITHM_SHA1 = 0,
  /**
   * SHA-224, whose digest has 28 bytes.
   */
  WIDELANE_HASH_ALGORITHM_SHA224 = 1,
  /**
   * SHA-256, whose digest has 32 bytes.
   */
  WIDELANE_HASH_ALGORITHM_SHA256 = 2,
  /**
   * SHA-384, whose digest has 48 bytes.
   */
  WIDELANE_HASH_ALGORITHM_SHA384 = 3,
  /**
   * SHA-512, whose digest has 64 bytes.
   */
  WIDELANE_HASH_ALGORITHM_SHA512 = 4,
} widelane_hash_algorithm;

/**
 * What a packet begins with.
 */
typedef enum widelane_link {
  /**
   * An Ethernet header, with up to three VLAN tags.
   */
  WIDELANE_LINK_ETHERNET = 0,
  /**
   * An IP header.
   */
  WIDELANE_LINK_IP = 1,
} widelane_link;

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
 * Parameter sets of ML-KEM.
 */
typedef enum widelane_ml_kem_parameter_set {
  /**
   * ML-KEM-512.
   */
  WIDELANE_ML_KEM_PARAMETER_SET_ML_KEM512 = 0,
  /**
   * ML-KEM-768.
   */
  WIDELANE_ML_KEM_PARAMETER_SET_ML_KEM768 = 1,
  /**
   * ML-KEM-1024.
   */
  WIDELANE_ML_KEM_PARAMETER_SET_ML_KEM1024 = 2,
} widelane_ml_kem_parameter_set;

/**
 * A key of authenticated encryption; may be used by several threads at once.
 */
typedef struct widelane_aead_key widelane_aead_key;

/**
 * The keys of one direction of a connection; may be used by several threads at once.
 */
typedef struct widelane_cbc_hmac_key widelane_cbc_hmac_key;

/**
 * Looks packets up in a table; may be used by several threads at once.
 */
typedef struct widelane_classifier widelane_classifier;

/**
 * What was chosen for this machine; may be used by several threads at once.
 */
typedef struct widelane_crypto widelane_crypto;

/**
 * A private key on a curve; may be used by several threads at once.
 */
typedef struct widelane_ec_private_key widelane_ec_private_key;

/**
 * A public key on a curve; may be used by several threads at once.
 */
typedef struct widelane_ec_public_key widelane_ec_public_key;

/**
 * A private key of Ed25519; may be used by several threads at once.
 */
typedef struct widelane_ed25519_key widelane_ed25519_key;

/**
 * A key of HMAC; may be used by several threads at once.
 */
typedef struct widelane_hmac_key widelane_hmac_key;

/**
 * A rule set that changes while packets are looked up; may be used by several threads at once.
 */
typedef struct widelane_live widelane_live;

/**
 * A decapsulation key; may be used by several threads at once.
 */
typedef struct widelane_ml_kem_key widelane_ml_kem_key;

/**
 * Looks packets up in a live set; each thread has one of its own.
 */
typedef struct widelane_reader widelane_reader;

/**
 * An RSA private key; may be used by several threads at once.
 */
typedef struct widelane_rsa_key widelane_rsa_key;

/**
 * A set of rules.
 */
typedef struct widelane_rules widelane_rules;

/**
 * A table of rules.
 */
typedef struct widelane_table widelane_table;

/**
 * A private key of X25519; may be used by several threads at once.
 */
typedef struct widelane_x25519_key widelane_x25519_key;

/**
 * The fields of a packet, laid out as lookups want them: `bytes` and `length` make a
 * `widelane_packet`.
 */
typedef struct widelane_flow {
  /**
   * An IPv4 header without options or an IPv6 header without extension headers, and two ports.
   */
  uint8_t bytes[44];
  /**
   * How many bytes there are: 24 or 44.
   */
  uint32_t length;
  /**
   * Whether it is IPv6: it can be looked up in tables for that only.
   */
  bool is_ipv6;
  /**
   * Whether it is a fragment other than the first: its ports are unknown, and 0 here.
   */
  bool is_later_fragment;
} widelane_flow;

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
   * One bit for each category that the rule belongs to; at least one of the set's, of which the
   * lowest bit stands for the first.
   */
  uint16_t categories;
  /**
   * What a packet gets whose best rule this is.
   */
  uint32_t result;
} widelane_rule;

/**
 * What is looked up: the first bytes of a packet, from its IP header on.
 *
 * Lookups compare bytes at fixed places: of IPv4 the first 24, of IPv6 the first 44, with the
 * ports directly behind a header of 20 or 40 bytes. So this must be a packet of the table's
 * version of IP without IPv4 options or IPv6 extension headers, which is not a later fragment, has
 * ports, and says itself that it is long enough to have them. Of any other packet something else
 * would be taken for ports, and its sender could evade rules that deny.
 *
 * `widelane_flow_parse` makes of any packet what can be looked up; use it unless all packets are
 * known to be of this form. If one packet is too short, none of the call is looked up.
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

/**
 * One message, sealed or opened where it is.
 */
typedef struct widelane_aead_job {
  /**
   * The key, which may differ from job to job.
   */
  const struct widelane_aead_key *key;
  /**
   * The nonce, 12 bytes. When sealing, never use one twice with the same key.
   */
  const uint8_t *nonce;
  /**
   * What is authenticated but not encrypted.
   */
  const uint8_t *aad;
  /**
   * How many bytes that is.
   */
  size_t aad_length;
  /**
   * The message.
   */
  uint8_t *text;
  /**
   * How many bytes it has.
   */
  size_t text_length;
  /**
   * The tag, 16 bytes: written when sealing, compared when opening.
   */
  uint8_t *tag;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_aead_job;

/**
 * One record, sealed or opened where it is.
 */
typedef struct widelane_cbc_hmac_job {
  /**
   * The keys, which may differ from job to job.
   */
  const struct widelane_cbc_hmac_key *key;
  /**
   * The IV, 16 bytes.
   */
  const uint8_t *iv;
  /**
   * The number of the record.
   */
  uint64_t sequence;
  /**
   * Its version: 0x0303 is TLS 1.2.
   */
  uint16_t version;
  /**
   * Its content type: 23 is application data.
   */
  uint8_t kind;
  /**
   * The record: its text, and behind it tag and padding.
   */
  uint8_t *record;
  /**
   * How many bytes it has: `widelane_cbc_hmac_record_bytes` of its text.
   */
  size_t record_length;
  /**
   * How many of them are the text: read when sealing, written when opening.
   */
  size_t text_length;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_cbc_hmac_job;

/**
 * One public key to be made of a private one.
 */
typedef struct widelane_ec_generate_job {
  /**
   * The private key.
   */
  const struct widelane_ec_private_key *private_key;
  /**
   * Where the public key goes, as 04 || x || y.
   */
  uint8_t *public_key;
  /**
   * How many bytes there are for it: two coordinates and one. If not, nothing is written.
   */
  size_t public_key_length;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_ec_generate_job;

/**
 * One shared secret to be derived.
 */
typedef struct widelane_ec_derive_job {
  /**
   * Our private key.
   */
  const struct widelane_ec_private_key *private_key;
  /**
   * The peer's public key, on the same curve.
   */
  const struct widelane_ec_public_key *peer;
  /**
   * Where the shared secret goes, an x coordinate.
   */
  uint8_t *shared;
  /**
   * How many bytes there are for it: one coordinate. If not, nothing is written.
   */
  size_t shared_length;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_ec_derive_job;

/**
 * One digest to be signed.
 */
typedef struct widelane_ec_sign_job {
  /**
   * The private key.
   */
  const struct widelane_ec_private_key *key;
  /**
   * The digest.
   */
  const uint8_t *digest;
  /**
   * How many bytes it has.
   */
  size_t digest_length;
  /**
   * Fresh random bytes, 32 of them.
   */
  const uint8_t *entropy;
  /**
   * Where the signature goes, as r || s.
   */
  uint8_t *signature;
  /**
   * How many bytes there are for it: two coordinates. If not, nothing is written.
   */
  size_t signature_length;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_ec_sign_job;

/**
 * One signature to be verified.
 */
typedef struct widelane_ec_verify_job {
  /**
   * The public key.
   */
  const struct widelane_ec_public_key *key;
  /**
   * The digest.
   */
  const uint8_t *digest;
  /**
   * How many bytes it has.
   */
  size_t digest_length;
  /**
   * The signature, as r || s.
   */
  const uint8_t *signature;
  /**
   * How many bytes it has: two coordinates.
   */
  size_t signature_length;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_ec_verify_job;

/**
 * One message to be signed.
 */
typedef struct widelane_ed25519_sign_job {
  /**
   * The key, which may differ from job to job.
   */
  const struct widelane_ed25519_key *key;
  /**
   * The message.
   */
  const uint8_t *message;
  /**
   * How many bytes it has.
   */
  size_t message_length;
  /**
   * Where the signature goes, 64 bytes.
   */
  uint8_t *signature;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_ed25519_sign_job;

/**
 * One signature to be verified.
 */
typedef struct widelane_ed25519_verify_job {
  /**
   * The public key, 32 bytes.
   */
  const uint8_t *public_key;
  /**
   * The message.
   */
  const uint8_t *message;
  /**
   * How many bytes it has.
   */
  size_t message_length;
  /**
   * The signature, 64 bytes.
   */
  const uint8_t *signature;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_ed25519_verify_job;

/**
 * One message to be hashed.
 */
typedef struct widelane_hash_job {
  /**
   * The message.
   */
  const uint8_t *message;
  /**
   * How many bytes it has.
   */
  size_t message_length;
  /**
   * Where the digest goes.
   */
  uint8_t *digest;
  /**
   * How many bytes there are for it: as many as it has.
   */
  size_t digest_length;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_hash_job;

/**
 * One message to be authenticated.
 */
typedef struct widelane_hmac_job {
  /**
   * The key, which may differ from job to job.
   */
  const struct widelane_hmac_key *key;
  /**
   * The message.
   */
  const uint8_t *message;
  /**
   * How many bytes it has.
   */
  size_t message_length;
  /**
   * The tag: written by `widelane_hmac_tag_many`, compared by `widelane_hmac_verify_many`.
   */
  uint8_t *tag;
  /**
   * How many bytes of it: as many as the digest has; to compare, the first half of them or more.
   */
  size_t tag_length;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_hmac_job;

/**
 * One key to be made of a seed.
 */
typedef struct widelane_ml_kem_generate_job {
  /**
   * 64 random bytes: those that FIPS 203 names d, and then z.
   */
  const uint8_t *seed;
  /**
   * Where the key goes, which the caller frees; null if there is none.
   */
  struct widelane_ml_kem_key **key;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_ml_kem_generate_job;

/**
 * One shared secret to be encapsulated.
 */
typedef struct widelane_ml_kem_encapsulate_job {
  /**
   * The peer's encapsulation key, as long as those of the parameter set.
   */
  const uint8_t *public_key;
  /**
   * 32 random bytes, which must be kept secret.
   */
  const uint8_t *message;
  /**
   * Where the ciphertext goes, as long as those of the parameter set; zeros if the key is
   * refused.
   */
  uint8_t *ciphertext;
  /**
   * Where the shared secret goes, 32 bytes; zeros if the key is refused.
   */
  uint8_t *shared;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_ml_kem_encapsulate_job;

/**
 * One shared secret to be decapsulated.
 */
typedef struct widelane_ml_kem_decapsulate_job {
  /**
   * Our key.
   */
  const struct widelane_ml_kem_key *key;
  /**
   * The ciphertext, as long as those of the key's parameter set.
   */
  const uint8_t *ciphertext;
  /**
   * Where the shared secret goes, 32 bytes. Nothing reveals whether the ciphertext was valid.
   */
  uint8_t *shared;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_ml_kem_decapsulate_job;

/**
 * The numbers of an RSA private key (RFC 8017, 3.2), big-endian, leading zeros allowed.
 */
typedef struct widelane_rsa_components {
  /**
   * The modulus.
   */
  const uint8_t *n;
  /**
   * How many bytes it has.
   */
  size_t n_length;
  /**
   * The public exponent.
   */
  const uint8_t *e;
  /**
   * How many bytes it has.
   */
  size_t e_length;
  /**
   * The first prime.
   */
  const uint8_t *p;
  /**
   * How many bytes it has.
   */
  size_t p_length;
  /**
   * The second prime.
   */
  const uint8_t *q;
  /**
   * How many bytes it has.
   */
  size_t q_length;
  /**
   * The inverse of `e` modulo `p` - 1.
   */
  const uint8_t *dp;
  /**
   * How many bytes it has.
   */
  size_t dp_length;
  /**
   * The inverse of `e` modulo `q` - 1.
   */
  const uint8_t *dq;
  /**
   * How many bytes it has.
   */
  size_t dq_length;
  /**
   * The inverse of `q` modulo `p`.
   */
  const uint8_t *qinv;
  /**
   * How many bytes it has.
   */
  size_t qinv_length;
} widelane_rsa_components;

/**
 * One private operation: `output` = `input`^d mod n, big-endian and as long as the modulus.
 */
typedef struct widelane_rsa_job {
  /**
   * The key, which may differ from job to job.
   */
  const struct widelane_rsa_key *key;
  /**
   * What is raised to the private exponent: an encoded message or a ciphertext.
   */
  const uint8_t *input;
  /**
   * Where the result goes; zeros if there is none, and left as it is if `length` is wrong.
   */
  uint8_t *output;
  /**
   * How many bytes input and output have each: as many as the modulus.
   */
  size_t length;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_rsa_job;

/**
 * One public key to be made of a private one.
 */
typedef struct widelane_x25519_generate_job {
  /**
   * The private key.
   */
  const struct widelane_x25519_key *private_key;
  /**
   * Where the public key goes, 32 bytes.
   */
  uint8_t *public_key;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_x25519_generate_job;

/**
 * One shared secret to be derived.
 */
typedef struct widelane_x25519_derive_job {
  /**
   * Our private key.
   */
  const struct widelane_x25519_key *private_key;
  /**
   * The peer's public key, 32 bytes.
   */
  const uint8_t *peer;
  /**
   * Where the shared secret goes, 32 bytes; zeros if the peer's key is refused.
   */
  uint8_t *shared;
  /**
   * What became of the job: one of `widelane_status`.
   */
  uint32_t status;
} widelane_x25519_derive_job;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Finds the fields of a packet, wherever they lie: behind IPv4 options and IPv6 extension headers.
 * `link` is one of `widelane_link`. Packets without ports (ICMP, for one) get ports 0; an
 * authentication header is the protocol (51), and nothing behind it is looked at.
 *
 * A packet that cannot be looked up is `WIDELANE_STATUS_NOT_IP`, `WIDELANE_STATUS_CUT` or
 * `WIDELANE_STATUS_MALFORMED`, and nothing is written.
 *
 * # Safety
 *
 * There are `length` bytes, and `flow` can be written to.
 */
enum widelane_status widelane_flow_parse(uint32_t link,
                                         const uint8_t *bytes,
                                         size_t length,
                                         struct widelane_flow *flow);

/**
 * Begins a live set, whose rules have the numbers from 0 in their order. `table_bytes` and
 * `width_max` are as for tables and classifiers.
 *
 * A forked child has a set of its own, with the rules of that moment. Its first change takes as
 * long as this, or fails as this does; if another thread was changing the rules at the fork, the
 * child's changes are `WIDELANE_STATUS_FORKED`.
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
 * Adds a rule behind those of its priority, and stores its number. Readers see it when this
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
 * Replaces all rules as `widelane_live_replace` does, and stores the number of the first rule
 * unless `first` is null; the others have the numbers behind it, in their order.
 *
 * # Safety
 *
 * `live` and `rules` are ones that are not freed, and `first` is null or can be written to.
 */
enum widelane_status widelane_live_replace_numbered(const struct widelane_live *live,
                                                    const struct widelane_rules *rules,
                                                    uint64_t *first);

/**
 * Whether the trees of a live set could be rebuilt when that was due. If the status is `_BUILD`,
 * the text of the last error says why not; lookups are right all the same, but may get slower with
 * every change.
 *
 * # Safety
 *
 * `live` is one that is not freed.
 */
enum widelane_status widelane_live_trouble(const struct widelane_live *live);

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
 * and stores its number unless `version` is null.
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
 * call it. A zero byte ends the text: give what was read from a file to
 * `widelane_rules_parse_bytes`, which refuses it there.
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
 * Reads `length` bytes of a rule file as `widelane_rules_parse` reads a text. Comments and names
 * may be in any encoding.
 *
 * # Safety
 *
 * `file` ends with a zero, there are `length` bytes, and `rules` can be written to.
 */
enum widelane_status widelane_rules_parse_bytes(uint32_t format,
                                                const char *file,
                                                const uint8_t *bytes,
                                                size_t length,
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
 * Whether the rules are for IPv6 rather than IPv4; false for null, and where there are none to
 * tell.
 *
 * # Safety
 *
 * `rules` is null or a set that is not freed.
 */
bool widelane_rules_is_ipv6(const struct widelane_rules *rules);

/**
 * How many results a lookup by these rules gives for each packet; 0 for null.
 *
 * # Safety
 *
 * `rules` is null or a set that is not freed.
 */
size_t widelane_rules_categories(const struct widelane_rules *rules);

/**
 * Frees a set.
 *
 * # Safety
 *
 * `rules` is null or a set that is not freed.
 */
void widelane_rules_free(struct widelane_rules *rules);

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
 * Maps a table that was written to a file, after checking all of it.
 *
 * # Safety
 *
 * `path` ends with a zero, and `table` can be written to. The file stays as it is, neither written
 * to nor shortened, until the table and its classifiers are freed: it is replaced by renaming
 * another over it, as `widelane_table_write` does.
 */
enum widelane_status widelane_table_open(const char *path, struct widelane_table **table);

/**
 * Writes a table to a file: to a new one beside it first, which then takes its place. A table that
 * is mapped from the old file stays as it is.
 *
 * # Safety
 *
 * `table` is one that is not freed, and `path` ends with a zero.
 */
enum widelane_status widelane_table_write(const struct widelane_table *table, const char *path);

/**
 * Whether a table is for IPv6 rather than IPv4; false for null.
 *
 * # Safety
 *
 * `table` is null or one that is not freed.
 */
bool widelane_table_is_ipv6(const struct widelane_table *table);

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

/**
 * Chooses the widest rooms that the machine has, with registers of at most `width_max` bits: 128,
 * 256 or 512, or 0 for no limit.
 *
 * # Safety
 *
 * `crypto` can be written to.
 */
enum widelane_status widelane_crypto_choose(uint32_t width_max, struct widelane_crypto **crypto);

/**
 * How many jobs of public keys a full batch has: fewer cost as much. On CPUs without AVX-512 IFMA
 * this holds for curves, and RSA does one job after another. 0 for null.
 *
 * # Safety
 *
 * `crypto` is null or one that is not freed.
 */
size_t widelane_crypto_lanes(const struct widelane_crypto *crypto);

/**
 * Frees what was chosen; keys that were made with it stay.
 *
 * # Safety
 *
 * `crypto` is null or one that is not freed.
 */
void widelane_crypto_free(struct widelane_crypto *crypto);

/**
 * Expands a key; `algorithm` is one of `widelane_aead_algorithm`.
 *
 * # Safety
 *
 * `crypto` is one that is not freed, there are as many bytes as said, and `key` can be written to.
 */
enum widelane_status widelane_aead_key_new(const struct widelane_crypto *crypto,
                                           uint32_t algorithm,
                                           const uint8_t *bytes,
                                           size_t length,
                                           struct widelane_aead_key **key);

/**
 * Wipes and frees a key.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
void widelane_aead_key_free(struct widelane_aead_key *key);

/**
 * Seals messages: encrypts each text and writes its tag.
 *
 * # Safety
 *
 * There are `job_count` jobs; each points to what it says, and no text and no tag overlaps
 * anything else.
 */
enum widelane_status widelane_aead_seal_many(struct widelane_aead_job *jobs, size_t job_count);

/**
 * Opens messages: decrypts each text whose tag is right, and clears the others.
 *
 * # Safety
 *
 * As for `widelane_aead_seal_many`.
 */
enum widelane_status widelane_aead_open_many(struct widelane_aead_job *jobs, size_t job_count);

/**
 * Expands the keys; `algorithm` is one of `widelane_cbc_hmac_algorithm`, and `mode` one of
 * `widelane_cbc_hmac_mode`.
 *
 * # Safety
 *
 * `crypto` is one that is not freed, there are as many bytes as said, and `key` can be written to.
 */
enum widelane_status widelane_cbc_hmac_key_new(const struct widelane_crypto *crypto,
                                               uint32_t algorithm,
                                               uint32_t mode,
                                               const uint8_t *cipher,
                                               size_t cipher_length,
                                               const uint8_t *mac,
                                               size_t mac_length,
                                               struct widelane_cbc_hmac_key **key);

/**
 * How many bytes the record of a text has: what of it stands behind the IV. 0 for null, and for a
 * text that is too long for one record.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
size_t widelane_cbc_hmac_record_bytes(const struct widelane_cbc_hmac_key *key, size_t text_length);

/**
 * Wipes and frees the keys.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
void widelane_cbc_hmac_key_free(struct widelane_cbc_hmac_key *key);

/**
 * Seals records: authenticates, pads and encrypts each text.
 *
 * # Safety
 *
 * There are `job_count` jobs; each points to what it says, and no record overlaps anything else.
 */
enum widelane_status widelane_cbc_hmac_seal_many(struct widelane_cbc_hmac_job *jobs,
                                                 size_t job_count);

/**
 * Opens records: decrypts and checks each, writes how long its text is, and clears those that are
 * not good.
 *
 * # Safety
 *
 * As for `widelane_cbc_hmac_seal_many`.
 */
enum widelane_status widelane_cbc_hmac_open_many(struct widelane_cbc_hmac_job *jobs,
                                                 size_t job_count);

/**
 * Takes over a private key, big-endian and as long as a coordinate; `curve` is one of
 * `widelane_curve`.
 *
 * # Safety
 *
 * There are as many bytes as said, and `key` can be written to.
 */
enum widelane_status widelane_ec_private_key_new(uint32_t curve,
                                                 const uint8_t *bytes,
                                                 size_t length,
                                                 struct widelane_ec_private_key **key);

/**
 * Wipes and frees a private key.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
void widelane_ec_private_key_free(struct widelane_ec_private_key *key);

/**
 * Takes over a public key, as 04 || x || y; `curve` is one of `widelane_curve`.
 *
 * # Safety
 *
 * There are as many bytes as said, and `key` can be written to.
 */
enum widelane_status widelane_ec_public_key_new(uint32_t curve,
                                                const uint8_t *bytes,
                                                size_t length,
                                                struct widelane_ec_public_key **key);

/**
 * Frees a public key.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
void widelane_ec_public_key_free(struct widelane_ec_public_key *key);

/**
 * Makes public keys. Uses up to 64 KiB of stack, as every batch on these curves.
 *
 * # Safety
 *
 * `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
 * no output overlaps anything else.
 */
enum widelane_status widelane_ec_generate_batch(const struct widelane_crypto *crypto,
                                                struct widelane_ec_generate_job *jobs,
                                                size_t job_count);

/**
 * Derives shared secrets.
 *
 * # Safety
 *
 * As for `widelane_ec_generate_batch`.
 */
enum widelane_status widelane_ec_derive_batch(const struct widelane_crypto *crypto,
                                              struct widelane_ec_derive_job *jobs,
                                              size_t job_count);

/**
 * Signs digests by ECDSA.
 *
 * # Safety
 *
 * As for `widelane_ec_generate_batch`.
 */
enum widelane_status widelane_ec_sign_batch(const struct widelane_crypto *crypto,
                                            struct widelane_ec_sign_job *jobs,
                                            size_t job_count);

/**
 * Verifies signatures of ECDSA; that of a job whose status is `WIDELANE_STATUS_OK` is good.
 *
 * # Safety
 *
 * `crypto` is one that is not freed; there are `job_count` jobs, and each points to what it says.
 */
enum widelane_status widelane_ec_verify_batch(const struct widelane_crypto *crypto,
                                              struct widelane_ec_verify_job *jobs,
                                              size_t job_count);

/**
 * Expands a seed, the private key of RFC 8032.
 *
 * # Safety
 *
 * There are 32 bytes, and `key` can be written to.
 */
enum widelane_status widelane_ed25519_key_new(const uint8_t *seed,
                                              struct widelane_ed25519_key **key);

/**
 * Writes the 32 bytes of the public key.
 *
 * # Safety
 *
 * `key` is one that is not freed, and 32 bytes can be written to.
 */
enum widelane_status widelane_ed25519_public_key(const struct widelane_ed25519_key *key,
                                                 uint8_t *public_key);

/**
 * Wipes and frees a key.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
void widelane_ed25519_key_free(struct widelane_ed25519_key *key);

/**
 * Signs messages.
 *
 * # Safety
 *
 * `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
 * no signature overlaps anything else.
 */
enum widelane_status widelane_ed25519_sign_batch(const struct widelane_crypto *crypto,
                                                 struct widelane_ed25519_sign_job *jobs,
                                                 size_t job_count);

/**
 * Verifies signatures; that of a job whose status is `WIDELANE_STATUS_OK` is good.
 *
 * # Safety
 *
 * `crypto` is one that is not freed; there are `job_count` jobs, and each points to what it says.
 */
enum widelane_status widelane_ed25519_verify_batch(const struct widelane_crypto *crypto,
                                                   struct widelane_ed25519_verify_job *jobs,
                                                   size_t job_count);

/**
 * Hashes messages, whatever their lengths; `algorithm` is one of `widelane_hash_algorithm`.
 *
 * # Safety
 *
 * `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
 * no digest overlaps anything else.
 */
enum widelane_status widelane_hash_many(const struct widelane_crypto *crypto,
                                        uint32_t algorithm,
                                        struct widelane_hash_job *jobs,
                                        size_t job_count);

/**
 * Prepares a key of any length; `algorithm` is one of `widelane_hash_algorithm`.
 *
 * # Safety
 *
 * `crypto` is one that is not freed, there are as many bytes as said, and `key` can be written to.
 */
enum widelane_status widelane_hmac_key_new(const struct widelane_crypto *crypto,
                                           uint32_t algorithm,
                                           const uint8_t *bytes,
                                           size_t length,
                                           struct widelane_hmac_key **key);

/**
 * Wipes and frees a key.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
void widelane_hmac_key_free(struct widelane_hmac_key *key);

/**
 * Makes the tags of messages.
 *
 * # Safety
 *
 * There are `job_count` jobs; each points to what it says, and no tag overlaps anything else.
 */
enum widelane_status widelane_hmac_tag_many(struct widelane_hmac_job *jobs, size_t job_count);

/**
 * Compares the tags of messages, in a time that does not depend on where they differ.
 *
 * # Safety
 *
 * As for `widelane_hmac_tag_many`.
 */
enum widelane_status widelane_hmac_verify_many(struct widelane_hmac_job *jobs, size_t job_count);

/**
 * Bytes of an encapsulation key of a parameter set; 0 if there is no such set.
 */
size_t widelane_ml_kem_public_key_bytes(uint32_t parameter_set);

/**
 * Bytes of a decapsulation key of a parameter set; 0 if there is no such set.
 */
size_t widelane_ml_kem_private_key_bytes(uint32_t parameter_set);

/**
 * Bytes of a ciphertext of a parameter set; 0 if there is no such set.
 */
size_t widelane_ml_kem_ciphertext_bytes(uint32_t parameter_set);

/**
 * Takes over a decapsulation key in its expanded form, and checks it (FIPS 203, 7.3).
 *
 * # Safety
 *
 * `crypto` is one that is not freed, there are `bytes_count` bytes, and `key` can be written to.
 */
enum widelane_status widelane_ml_kem_key_new(const struct widelane_crypto *crypto,
                                             uint32_t parameter_set,
                                             const uint8_t *bytes,
                                             size_t bytes_count,
                                             struct widelane_ml_kem_key **key);

/**
 * Stores the encapsulation key that belongs to a key.
 *
 * # Safety
 *
 * `key` is one that is not freed, and there are as many bytes as its parameter set's have.
 */
enum widelane_status widelane_ml_kem_public_key(const struct widelane_ml_kem_key *key,
                                                uint8_t *public_key);

/**
 * Stores a key in its expanded form.
 *
 * # Safety
 *
 * `key` is one that is not freed, and there are as many bytes as its parameter set's have.
 */
enum widelane_status widelane_ml_kem_private_key(const struct widelane_ml_kem_key *key,
                                                 uint8_t *private_key);

/**
 * Wipes and frees a key.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
void widelane_ml_kem_key_free(struct widelane_ml_kem_key *key);

/**
 * Makes keys of one parameter set.
 *
 * # Safety
 *
 * `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
 * no output overlaps anything else.
 */
enum widelane_status widelane_ml_kem_generate_batch(const struct widelane_crypto *crypto,
                                                    uint32_t parameter_set,
                                                    struct widelane_ml_kem_generate_job *jobs,
                                                    size_t job_count);

/**
 * Encapsulates shared secrets, for keys of one parameter set.
 *
 * # Safety
 *
 * As for `widelane_ml_kem_generate_batch`.
 */
enum widelane_status widelane_ml_kem_encapsulate_batch(const struct widelane_crypto *crypto,
                                                       uint32_t parameter_set,
                                                       struct widelane_ml_kem_encapsulate_job *jobs,
                                                       size_t job_count);

/**
 * Decapsulates shared secrets; the keys may be of several parameter sets.
 *
 * # Safety
 *
 * As for `widelane_ml_kem_generate_batch`.
 */
enum widelane_status widelane_ml_kem_decapsulate_batch(const struct widelane_crypto *crypto,
                                                       struct widelane_ml_kem_decapsulate_job *jobs,
                                                       size_t job_count);

/**
 * Takes over a key of 2048, 3072 or 4096 bits. Uses up to 80 KiB of stack.
 *
 * # Safety
 *
 * `components` points to numbers of as many bytes as said, and `key` can be written to.
 */
enum widelane_status widelane_rsa_key_new(const struct widelane_rsa_components *components,
                                          struct widelane_rsa_key **key);

/**
 * Wipes and frees a key.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
void widelane_rsa_key_free(struct widelane_rsa_key *key);

/**
 * Executes private operations; each result is checked with the public exponent before it leaves.
 * Uses up to 160 KiB of stack.
 *
 * # Safety
 *
 * `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
 * no output overlaps anything else.
 */
enum widelane_status widelane_rsa_private_batch(const struct widelane_crypto *crypto,
                                                struct widelane_rsa_job *jobs,
                                                size_t job_count);

/**
 * Takes over a private key: any 32 bytes.
 *
 * # Safety
 *
 * There are 32 bytes, and `key` can be written to.
 */
enum widelane_status widelane_x25519_key_new(const uint8_t *bytes,
                                             struct widelane_x25519_key **key);

/**
 * Wipes and frees a key.
 *
 * # Safety
 *
 * `key` is null or one that is not freed.
 */
void widelane_x25519_key_free(struct widelane_x25519_key *key);

/**
 * Makes public keys.
 *
 * # Safety
 *
 * `crypto` is one that is not freed; there are `job_count` jobs, each points to what it says, and
 * no output overlaps anything else.
 */
enum widelane_status widelane_x25519_generate_batch(const struct widelane_crypto *crypto,
                                                    struct widelane_x25519_generate_job *jobs,
                                                    size_t job_count);

/**
 * Derives shared secrets.
 *
 * # Safety
 *
 * As for `widelane_x25519_generate_batch`.
 */
enum widelane_status widelane_x25519_derive_batch(const struct widelane_crypto *crypto,
                                                  struct widelane_x25519_derive_job *jobs,
                                                  size_t job_count);

/**
 * Why the most recent call of this thread that failed did so. Valid until another one fails or
 * the thread ends; empty while a thread ends (in destructors of keys of pthreads, and in functions
 * given to atexit).
 */
const char *widelane_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WIDELANE_H */
