// The direct calls of ipsec-mb that are timed; in its header they are macros.

#include "manager.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CHACHA20_POLY1305 = 0, KEY_BYTES_MAX = 32, TAG_BYTES = 16 };

// A key, expanded for the calls of the best instructions that this CPU has.
struct widelane_key {
    IMB_MGR *manager;
    // Bytes of an AES key, or CHACHA20_POLY1305.
    unsigned kind;
    struct gcm_key_data gcm __attribute__((aligned(64)));
    unsigned char chacha[KEY_BYTES_MAX];
};

// Makes a key of `kind`; null if memory or the CPU's features do not suffice.
struct widelane_key *widelane_direct_key(unsigned kind, const unsigned char *bytes)
{
    struct widelane_key *key = aligned_alloc(64, (sizeof *key + 63) / 64 * 64);
    IMB_MGR *manager = widelane_manager();
    if (key == NULL || manager == NULL)
        return NULL;
    key->manager = manager;
    key->kind = kind;
    switch (kind) {
    case 16: IMB_AES128_GCM_PRE(manager, bytes, &key->gcm); break;
    case 24: IMB_AES192_GCM_PRE(manager, bytes, &key->gcm); break;
    case 32: IMB_AES256_GCM_PRE(manager, bytes, &key->gcm); break;
    default: memcpy(key->chacha, bytes, KEY_BYTES_MAX);
    }
    return key;
}

// Seals `length` bytes at `text` where they are, and writes 16 bytes to `tag`.
void widelane_direct_seal(const struct widelane_key *key, const unsigned char *nonce,
                          const unsigned char *aad, size_t aad_length,
                          unsigned char *text, size_t length, unsigned char *tag)
{
    IMB_MGR *manager = key->manager;
    struct gcm_context_data gcm;
    struct chacha20_poly1305_context_data chacha;
    switch (key->kind) {
    case 16:
        IMB_AES128_GCM_ENC(manager, &key->gcm, &gcm, text, text, length, nonce, aad, aad_length,
                           tag, TAG_BYTES);
        break;
    case 24:
        IMB_AES192_GCM_ENC(manager, &key->gcm, &gcm, text, text, length, nonce, aad, aad_length,
                           tag, TAG_BYTES);
        break;
    case 32:
        IMB_AES256_GCM_ENC(manager, &key->gcm, &gcm, text, text, length, nonce, aad, aad_length,
                           tag, TAG_BYTES);
        break;
    default:
        IMB_CHACHA20_POLY1305_INIT(manager, key->chacha, &chacha, nonce, aad, aad_length);
        IMB_CHACHA20_POLY1305_ENC_UPDATE(manager, key->chacha, &chacha, text, text, length);
        IMB_CHACHA20_POLY1305_ENC_FINALIZE(manager, &chacha, tag, TAG_BYTES);
    }
}

// Opens `length` bytes at `text` where they are; says whether the 16 bytes at `tag` are right.
bool widelane_direct_open(const struct widelane_key *key, const unsigned char *nonce,
                          const unsigned char *aad, size_t aad_length,
                          unsigned char *text, size_t length, const unsigned char *tag)
{
    IMB_MGR *manager = key->manager;
    struct gcm_context_data gcm;
    struct chacha20_poly1305_context_data chacha;
    unsigned char made[TAG_BYTES];
    switch (key->kind) {
    case 16:
        IMB_AES128_GCM_DEC(manager, &key->gcm, &gcm, text, text, length, nonce, aad, aad_length,
                           made, TAG_BYTES);
        break;
    case 24:
        IMB_AES192_GCM_DEC(manager, &key->gcm, &gcm, text, text, length, nonce, aad, aad_length,
                           made, TAG_BYTES);
        break;
    case 32:
        IMB_AES256_GCM_DEC(manager, &key->gcm, &gcm, text, text, length, nonce, aad, aad_length,
                           made, TAG_BYTES);
        break;
    default:
        IMB_CHACHA20_POLY1305_INIT(manager, key->chacha, &chacha, nonce, aad, aad_length);
        IMB_CHACHA20_POLY1305_DEC_UPDATE(manager, key->chacha, &chacha, text, text, length);
        IMB_CHACHA20_POLY1305_DEC_FINALIZE(manager, &chacha, made, TAG_BYTES);
    }
    return memcmp(made, tag, TAG_BYTES) == 0;
}

// Hashes `length` bytes at `text` by the SHA whose digest has `digest_bytes`.
void widelane_direct_digest(IMB_MGR *manager, size_t digest_bytes, const unsigned char *text,
                            size_t length, unsigned char *digest)
{
    switch (digest_bytes) {
    case IMB_SHA1_DIGEST_SIZE_IN_BYTES: IMB_SHA1(manager, text, length, digest); break;
    case IMB_SHA256_DIGEST_SIZE_IN_BYTES: IMB_SHA256(manager, text, length, digest); break;
    case IMB_SHA384_DIGEST_SIZE_IN_BYTES: IMB_SHA384(manager, text, length, digest); break;
    default: IMB_SHA512(manager, text, length, digest);
    }
}
