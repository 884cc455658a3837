// Jobs of ipsec-mb: messages handed over at once, and flushed.

#include "manager.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOBS_MAX = 32,
    NONCE_BYTES = 12,
    // Of the AAD of a message, and of what is authenticated ahead of a record's text.
    HEADER_BYTES = 13,
    BLOCK_BYTES = 16,
    ROUND_KEYS_MAX = 15,
    HASH_BLOCK_BYTES_MAX = IMB_SHA_512_BLOCK_SIZE,
};

// Jobs that are alike, but for where their texts and outputs are.
struct widelane_jobs {
    IMB_MGR *manager;
    IMB_JOB jobs[JOBS_MAX];
    // Where in an output its text, tag and padding begin, and how long the padding is.
    size_t text_at;
    size_t tag_at;
    size_t padding_at;
    size_t padding_bytes;
    bool is_tag;
    // What the jobs point at.
    struct gcm_key_data gcm __attribute__((aligned(64)));
    uint8_t encryption[ROUND_KEYS_MAX * BLOCK_BYTES] __attribute__((aligned(16)));
    uint8_t decryption[ROUND_KEYS_MAX * BLOCK_BYTES] __attribute__((aligned(16)));
    uint8_t inner[IMB_SHA512_DIGEST_SIZE_IN_BYTES];
    uint8_t outer[IMB_SHA512_DIGEST_SIZE_IN_BYTES];
    uint8_t chacha[32];
    uint8_t iv[BLOCK_BYTES];
    uint8_t header[HEADER_BYTES];
};

static struct widelane_jobs *blank(void)
{
    size_t bytes = (sizeof(struct widelane_jobs) + 63) / 64 * 64;
    struct widelane_jobs *jobs = aligned_alloc(64, bytes);
    if (jobs == NULL)
        return NULL;
    memset(jobs, 0, bytes);
    jobs->manager = widelane_manager();
    return jobs->manager == NULL ? NULL : jobs;
}

static struct widelane_jobs *alike(struct widelane_jobs *jobs, const IMB_JOB *job)
{
    for (size_t index = 0; index < JOBS_MAX; index++)
        jobs->jobs[index] = *job;
    return jobs;
}

static IMB_HASH_ALG hash(size_t digest_bytes)
{
    switch (digest_bytes) {
    case IMB_SHA1_DIGEST_SIZE_IN_BYTES: return IMB_AUTH_SHA_1;
    case IMB_SHA256_DIGEST_SIZE_IN_BYTES: return IMB_AUTH_SHA_256;
    case IMB_SHA384_DIGEST_SIZE_IN_BYTES: return IMB_AUTH_SHA_384;
    default: return IMB_AUTH_SHA_512;
    }
}

static IMB_HASH_ALG hmac(size_t digest_bytes)
{
    switch (digest_bytes) {
    case IMB_SHA1_DIGEST_SIZE_IN_BYTES: return IMB_AUTH_HMAC_SHA_1;
    case IMB_SHA256_DIGEST_SIZE_IN_BYTES: return IMB_AUTH_HMAC_SHA_256;
    case IMB_SHA384_DIGEST_SIZE_IN_BYTES: return IMB_AUTH_HMAC_SHA_384;
    default: return IMB_AUTH_HMAC_SHA_512;
    }
}

// Hashes the first block of HMAC: the key, with `pad` added to all of its bytes.
static void begin(IMB_MGR *manager, size_t digest_bytes, const uint8_t *key, size_t key_bytes,
                  uint8_t pad, uint8_t *state)
{
    uint8_t block[HASH_BLOCK_BYTES_MAX];
    memset(block, pad, sizeof block);
    for (size_t index = 0; index < key_bytes; index++)
        block[index] ^= key[index];
    switch (digest_bytes) {
    case IMB_SHA1_DIGEST_SIZE_IN_BYTES: IMB_SHA1_ONE_BLOCK(manager, block, state); break;
    case IMB_SHA256_DIGEST_SIZE_IN_BYTES: IMB_SHA256_ONE_BLOCK(manager, block, state); break;
    case IMB_SHA384_DIGEST_SIZE_IN_BYTES: IMB_SHA384_ONE_BLOCK(manager, block, state); break;
    default: IMB_SHA512_ONE_BLOCK(manager, block, state);
    }
}

static void authenticate(struct widelane_jobs *jobs, IMB_JOB *job, size_t digest_bytes,
                         const uint8_t *key, size_t key_bytes)
{
    begin(jobs->manager, digest_bytes, key, key_bytes, 0x36, jobs->inner);
    begin(jobs->manager, digest_bytes, key, key_bytes, 0x5c, jobs->outer);
    job->hash_alg = hmac(digest_bytes);
    job->auth_tag_output_len_in_bytes = digest_bytes;
    job->u.HMAC._hashed_auth_key_xor_ipad = jobs->inner;
    job->u.HMAC._hashed_auth_key_xor_opad = jobs->outer;
}

// A job that hashes `size` bytes, and encrypts nothing.
static IMB_JOB hashing(size_t size)
{
    return (IMB_JOB) {
        .cipher_mode = IMB_CIPHER_NULL,
        .cipher_direction = IMB_DIR_ENCRYPT,
        .chain_order = IMB_ORDER_HASH_CIPHER,
        .msg_len_to_hash_in_bytes = size,
    };
}

// Digests of texts of `size` bytes. All that make jobs answer null where memory or the CPU does not
// suffice.
struct widelane_jobs *widelane_jobs_digest(size_t digest_bytes, size_t size)
{
    struct widelane_jobs *jobs = blank();
    if (jobs == NULL)
        return NULL;
    IMB_JOB job = hashing(size);
    job.hash_alg = hash(digest_bytes);
    job.auth_tag_output_len_in_bytes = digest_bytes;
    return alike(jobs, &job);
}

// Whole tags of texts of `size` bytes, by HMAC with a key that is no longer than a block.
struct widelane_jobs *widelane_jobs_tag(size_t digest_bytes, const uint8_t *key, size_t key_bytes,
                                        size_t size)
{
    struct widelane_jobs *jobs = blank();
    if (jobs == NULL)
        return NULL;
    IMB_JOB job = hashing(size);
    authenticate(jobs, &job, digest_bytes, key, key_bytes);
    jobs->is_tag = true;
    return alike(jobs, &job);
}

// Messages of `size` bytes sealed where they are, the tag behind them. The kind of the key is what
// it is in direct.c.
struct widelane_jobs *widelane_jobs_seal(unsigned kind, const uint8_t *key, const uint8_t *nonce,
                                         const uint8_t *aad, size_t size)
{
    struct widelane_jobs *jobs = blank();
    if (jobs == NULL)
        return NULL;
    memcpy(jobs->iv, nonce, NONCE_BYTES);
    memcpy(jobs->header, aad, HEADER_BYTES);
    jobs->tag_at = size;
    IMB_JOB job = {
        .cipher_mode = IMB_CIPHER_GCM,
        .hash_alg = IMB_AUTH_AES_GMAC,
        .cipher_direction = IMB_DIR_ENCRYPT,
        .chain_order = IMB_ORDER_CIPHER_HASH,
        .enc_keys = &jobs->gcm,
        .dec_keys = &jobs->gcm,
        .key_len_in_bytes = kind,
        .msg_len_to_cipher_in_bytes = size,
        .msg_len_to_hash_in_bytes = size,
        .iv = jobs->iv,
        .iv_len_in_bytes = NONCE_BYTES,
        .auth_tag_output_len_in_bytes = BLOCK_BYTES,
        .u.GCM = { .aad = jobs->header, .aad_len_in_bytes = HEADER_BYTES },
    };
    switch (kind) {
    case 16: IMB_AES128_GCM_PRE(jobs->manager, key, &jobs->gcm); break;
    case 24: IMB_AES192_GCM_PRE(jobs->manager, key, &jobs->gcm); break;
    case 32: IMB_AES256_GCM_PRE(jobs->manager, key, &jobs->gcm); break;
    default:
        memcpy(jobs->chacha, key, sizeof jobs->chacha);
        job.cipher_mode = IMB_CIPHER_CHACHA20_POLY1305;
        job.hash_alg = IMB_AUTH_CHACHA20_POLY1305;
        job.enc_keys = job.dec_keys = jobs->chacha;
        job.key_len_in_bytes = sizeof jobs->chacha;
        job.u.CHACHA20_POLY1305.aad = jobs->header;
        job.u.CHACHA20_POLY1305.aad_len_in_bytes = HEADER_BYTES;
    }
    return alike(jobs, &job);
}

// Records with a text of `size` bytes, AES-CBC over text, tag and padding. The key of the tag is as
// long as a tag, and the IV all zeros.
struct widelane_jobs *widelane_jobs_record(const uint8_t *key, size_t key_bytes,
                                           const uint8_t *mac_key, size_t tag_bytes,
                                           const uint8_t *header, size_t size)
{
    struct widelane_jobs *jobs = blank();
    if (jobs == NULL)
        return NULL;
    memcpy(jobs->header, header, HEADER_BYTES);
    size_t sealed_bytes = (size + tag_bytes) / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES;
    jobs->text_at = BLOCK_BYTES;
    jobs->tag_at = BLOCK_BYTES + size;
    jobs->padding_at = jobs->tag_at + tag_bytes;
    jobs->padding_bytes = sealed_bytes - size - tag_bytes;
    IMB_JOB job = {
        .cipher_mode = IMB_CIPHER_CBC,
        .cipher_direction = IMB_DIR_ENCRYPT,
        .chain_order = IMB_ORDER_HASH_CIPHER,
        .enc_keys = jobs->encryption,
        .dec_keys = jobs->decryption,
        .key_len_in_bytes = key_bytes,
        .cipher_start_src_offset_in_bytes = jobs->text_at,
        .msg_len_to_cipher_in_bytes = sealed_bytes,
        .hash_start_src_offset_in_bytes = jobs->text_at - HEADER_BYTES,
        .msg_len_to_hash_in_bytes = HEADER_BYTES + size,
        .iv = jobs->iv,
        .iv_len_in_bytes = BLOCK_BYTES,
    };
    authenticate(jobs, &job, tag_bytes, mac_key, tag_bytes);
    if (key_bytes == IMB_KEY_128_BYTES)
        IMB_AES_KEYEXP_128(jobs->manager, key, jobs->encryption, jobs->decryption);
    else
        IMB_AES_KEYEXP_256(jobs->manager, key, jobs->encryption, jobs->decryption);
    return alike(jobs, &job);
}

// Tells a job where its text and its output are. The header of a record stands in front of its
// text, where the IV will be.
static void aim(const struct widelane_jobs *jobs, IMB_JOB *job, const uint8_t *text,
                uint8_t *output)
{
    if (job->cipher_mode == IMB_CIPHER_CBC) {
        memcpy(output + BLOCK_BYTES - HEADER_BYTES, jobs->header, HEADER_BYTES);
        memset(output + jobs->padding_at, (int)jobs->padding_bytes - 1, jobs->padding_bytes);
    }
    job->src = text;
    job->dst = output + jobs->text_at;
    job->auth_tag_output = output + jobs->tag_at;
}

// HMAC has a call that takes jobs from wherever they are, and returns when they are done.
static size_t tag_all(struct widelane_jobs *jobs, bool is_checked, size_t count)
{
    IMB_HASH_ALG algorithm = jobs->jobs[0].hash_alg;
    if (is_checked)
        return IMB_SUBMIT_HASH_BURST(jobs->manager, jobs->jobs, count, algorithm);
    return IMB_SUBMIT_HASH_BURST_NOCHECK(jobs->manager, jobs->jobs, count, algorithm);
}

// Everything else goes through the manager's own queue.
static size_t flush_all(struct widelane_jobs *jobs, bool is_checked, size_t count)
{
    IMB_MGR *manager = jobs->manager;
    IMB_JOB *queue[JOBS_MAX];
    if (IMB_GET_NEXT_BURST(manager, count, queue) < count)
        return 0;
    for (size_t index = 0; index < count; index++)
        *queue[index] = jobs->jobs[index];
    size_t done = is_checked ? IMB_SUBMIT_BURST(manager, count, queue)
                             : IMB_SUBMIT_BURST_NOCHECK(manager, count, queue);
    while (done < count) {
        size_t flushed = IMB_FLUSH_BURST(manager, count - done, queue);
        if (flushed == 0)
            break;
        done += flushed;
    }
    return done;
}

// Does `count` jobs, at most JOBS_MAX, on `texts`, or on what the outputs hold if that is null;
// returns how many were done. Only what came through the checks once may go without them.
size_t widelane_jobs_run(struct widelane_jobs *jobs, bool is_checked, const uint8_t *const *texts,
                         uint8_t *const *outputs, size_t count)
{
    for (size_t index = 0; index < count; index++)
        aim(jobs, &jobs->jobs[index], texts == NULL ? outputs[index] : texts[index],
            outputs[index]);
    size_t done = jobs->is_tag ? tag_all(jobs, is_checked, count)
                               : flush_all(jobs, is_checked, count);
    if (jobs->jobs[0].cipher_mode == IMB_CIPHER_CBC)
        for (size_t index = 0; index < count; index++)
            memcpy(outputs[index], jobs->iv, BLOCK_BYTES);
    return done;
}
