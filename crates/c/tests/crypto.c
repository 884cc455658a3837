/* A program in C that does each batch of libwidelane_c, and has OpenSSL check what comes out;
   tests/c.rs compiles and runs it. */
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>

#include "check.h"

#define REJECTED WIDELANE_STATUS_REJECTED
#define ARGUMENT WIDELANE_STATUS_ARGUMENT
/* More than the lanes of any room, and no multiple of them. */
#define JOBS 19
#define LONGEST 300

static unsigned char texts[JOBS][LONGEST];

/* How long the text of a job is: none is as long as another. */
static size_t length_of(int job) { return (size_t)(job * 16 + job % 5); }

static const EVP_MD *hash_of(uint32_t algorithm) {
    switch (algorithm) {
    case WIDELANE_HASH_ALGORITHM_SHA1: return EVP_sha1();
    case WIDELANE_HASH_ALGORITHM_SHA224: return EVP_sha224();
    case WIDELANE_HASH_ALGORITHM_SHA256: return EVP_sha256();
    case WIDELANE_HASH_ALGORITHM_SHA384: return EVP_sha384();
    default: return EVP_sha512();
    }
}

/* A batch that is refused as a whole gives each job its status: none keeps that of success. */
#define CHECK_REFUSED(jobs, call)                                                                 \
    do {                                                                                          \
        for (int i = 0; i < JOBS; i++) {                                                          \
            (jobs)[i].status = OK;                                                                \
        }                                                                                         \
        CHECK((call) == ARGUMENT);                                                                \
        for (int i = 0; i < JOBS; i++) {                                                          \
            CHECK((jobs)[i].status == ARGUMENT);                                                  \
        }                                                                                         \
    } while (0)

/* The same of jobs that are all zero. */
#define CHECK_ZEROS(type, call)                                                                   \
    do {                                                                                          \
        type jobs[JOBS] = {0};                                                                    \
        CHECK_REFUSED(jobs, call);                                                                \
    } while (0)

static int refused_batches(const widelane_crypto *crypto) {
    const uint32_t set = WIDELANE_ML_KEM_PARAMETER_SET_ML_KEM512;
    CHECK_ZEROS(widelane_hash_job, widelane_hash_many(crypto, 99, jobs, JOBS));
    CHECK_ZEROS(widelane_hash_job, widelane_hash_many(NULL, 0, jobs, JOBS));
    CHECK_ZEROS(widelane_hmac_job, widelane_hmac_tag_many(jobs, JOBS));
    CHECK_ZEROS(widelane_hmac_job, widelane_hmac_verify_many(jobs, JOBS));
    CHECK_ZEROS(widelane_aead_job, widelane_aead_seal_many(jobs, JOBS));
    CHECK_ZEROS(widelane_aead_job, widelane_aead_open_many(jobs, JOBS));
    CHECK_ZEROS(widelane_cbc_hmac_job, widelane_cbc_hmac_seal_many(jobs, JOBS));
    CHECK_ZEROS(widelane_cbc_hmac_job, widelane_cbc_hmac_open_many(jobs, JOBS));
    CHECK_ZEROS(widelane_rsa_job, widelane_rsa_private_batch(crypto, jobs, JOBS));
    CHECK_ZEROS(widelane_ec_generate_job, widelane_ec_generate_batch(crypto, jobs, JOBS));
    CHECK_ZEROS(widelane_ec_derive_job, widelane_ec_derive_batch(crypto, jobs, JOBS));
    CHECK_ZEROS(widelane_ec_sign_job, widelane_ec_sign_batch(crypto, jobs, JOBS));
    CHECK_ZEROS(widelane_ec_verify_job, widelane_ec_verify_batch(crypto, jobs, JOBS));
    CHECK_ZEROS(widelane_x25519_generate_job, widelane_x25519_generate_batch(crypto, jobs, JOBS));
    CHECK_ZEROS(widelane_x25519_derive_job, widelane_x25519_derive_batch(crypto, jobs, JOBS));
    CHECK_ZEROS(widelane_ed25519_sign_job, widelane_ed25519_sign_batch(crypto, jobs, JOBS));
    CHECK_ZEROS(widelane_ed25519_verify_job, widelane_ed25519_verify_batch(crypto, jobs, JOBS));
    CHECK_ZEROS(widelane_ml_kem_generate_job,
                widelane_ml_kem_generate_batch(crypto, set, jobs, JOBS));
    CHECK_ZEROS(widelane_ml_kem_encapsulate_job,
                widelane_ml_kem_encapsulate_batch(crypto, set, jobs, JOBS));
    CHECK_ZEROS(widelane_ml_kem_decapsulate_job,
                widelane_ml_kem_decapsulate_batch(crypto, jobs, JOBS));
    return 0;
}

/* A function that fails writes NULL to its place. */
#define CHECK_NULL(type, call)                                                                    \
    do {                                                                                          \
        type *place = (type *)texts;                                                              \
        CHECK((call) == ARGUMENT && place == NULL);                                               \
    } while (0)

static int refused_keys(const widelane_crypto *crypto) {
    const unsigned char *bytes = texts[0];
    CHECK_NULL(widelane_crypto, widelane_crypto_choose(64, &place));
    CHECK_NULL(widelane_hmac_key, widelane_hmac_key_new(crypto, 99, bytes, 16, &place));
    CHECK_NULL(widelane_aead_key, widelane_aead_key_new(crypto, 0, bytes, 15, &place));
    CHECK_NULL(widelane_cbc_hmac_key,
               widelane_cbc_hmac_key_new(crypto, 0, 2, bytes, 16, bytes, 20, &place));
    CHECK_NULL(widelane_rsa_key, widelane_rsa_key_new(NULL, &place));
    CHECK_NULL(widelane_ec_private_key, widelane_ec_private_key_new(2, bytes, 32, &place));
    CHECK_NULL(widelane_ec_public_key, widelane_ec_public_key_new(2, bytes, 65, &place));
    CHECK_NULL(widelane_x25519_key, widelane_x25519_key_new(NULL, &place));
    CHECK_NULL(widelane_ed25519_key, widelane_ed25519_key_new(NULL, &place));
    CHECK_NULL(widelane_ml_kem_key, widelane_ml_kem_key_new(crypto, 3, bytes, 7, &place));
    CHECK(widelane_crypto_choose(0, NULL) == ARGUMENT);
    return 0;
}

/* A job whose output overlaps something else of it is refused, and nothing is written: a good
   status with a wrong result is what must not be. The pointer has its own value again then. */
#define CHECK_APART(jobs, output, place, reason, call)                                            \
    do {                                                                                          \
        unsigned char before[LONGEST];                                                            \
        unsigned char *own = (unsigned char *)(jobs)[3].output;                                   \
        void *overlapping = (void *)(uintptr_t)(place);                                           \
        memcpy(before, overlapping, 16);                                                          \
        (jobs)[3].output = overlapping;                                                           \
        CHECK_REFUSED(jobs, call);                                                                \
        CHECK(memcmp(before, overlapping, 16) == 0);                                              \
        CHECK(strcmp(widelane_last_error(), "job 3: " reason " overlap") == 0);                   \
        (jobs)[3].output = (void *)own;                                                           \
    } while (0)

static int hashes(const widelane_crypto *crypto) {
    for (uint32_t algorithm = 0; algorithm <= WIDELANE_HASH_ALGORITHM_SHA512; algorithm++) {
        const EVP_MD *hash = hash_of(algorithm);
        size_t bytes = (size_t)EVP_MD_get_size(hash);
        unsigned char places[JOBS][64], expected[64];
        widelane_hash_job jobs[JOBS];
        widelane_hmac_job tags[JOBS];
        widelane_hmac_key *key = NULL;
        CHECK(widelane_hmac_key_new(crypto, algorithm, texts[1], 150, &key) == OK);
        for (int i = 0; i < JOBS; i++) {
            jobs[i] = (widelane_hash_job){texts[i], length_of(i), places[i], bytes, 99};
            tags[i] = (widelane_hmac_job){key, texts[i], length_of(i), places[i], bytes, 99};
        }
        CHECK(widelane_hash_many(crypto, algorithm, jobs, JOBS) == OK);
        for (int i = 0; i < JOBS; i++) {
            CHECK(EVP_Digest(texts[i], length_of(i), expected, NULL, hash, NULL));
            CHECK(jobs[i].status == OK && memcmp(places[i], expected, bytes) == 0);
        }
        CHECK_APART(jobs, digest, jobs[3].message + jobs[3].message_length - 1, "message and digest",
                    widelane_hash_many(crypto, algorithm, jobs, JOBS));
        jobs[2].message_length = SIZE_MAX;
        CHECK_REFUSED(jobs, widelane_hash_many(crypto, algorithm, jobs, JOBS));
        CHECK(strstr(widelane_last_error(), "job 2: message cannot have") != NULL);
        jobs[2].message_length = length_of(2);
        /* Nothing overlaps nothing, and neighbours lie apart. */
        jobs[1].message = places[1] + 1, jobs[1].message_length = 0;
        jobs[2].message = places[2] - 1, jobs[2].message_length = 1;
        jobs[3].digest_length--;
        CHECK(widelane_hash_many(crypto, algorithm, jobs, JOBS) == ARGUMENT);
        CHECK(jobs[3].status == ARGUMENT && jobs[4].status == OK);
        CHECK(strstr(widelane_last_error(), "job 3: the place has") != NULL);

        CHECK(widelane_hmac_tag_many(tags, JOBS) == OK);
        for (int i = 0; i < JOBS; i++) {
            CHECK(HMAC(hash, texts[1], 150, texts[i], length_of(i), expected, NULL));
            CHECK(tags[i].status == OK && memcmp(places[i], expected, bytes) == 0);
        }
        CHECK_APART(tags, tag, tags[3].message, "message and tag",
                    widelane_hmac_tag_many(tags, JOBS));
        tags[2].tag_length = bytes / 2;
        CHECK(widelane_hmac_verify_many(tags, JOBS) == OK);
        places[5][1] ^= 1;
        tags[6].tag_length = bytes / 2 - 1;
        CHECK(widelane_hmac_verify_many(tags, JOBS) == REJECTED);
        CHECK(tags[4].status == OK && tags[5].status == REJECTED && tags[6].status == ARGUMENT);
        widelane_hmac_key_free(key);
    }
    return 0;
}

static const EVP_CIPHER *cipher_of(uint32_t algorithm) {
    switch (algorithm) {
    case WIDELANE_AEAD_ALGORITHM_AES128_GCM: return EVP_aes_128_gcm();
    case WIDELANE_AEAD_ALGORITHM_AES192_GCM: return EVP_aes_192_gcm();
    case WIDELANE_AEAD_ALGORITHM_AES256_GCM: return EVP_aes_256_gcm();
    default: return EVP_chacha20_poly1305();
    }
}

/* Whether OpenSSL opens what was sealed, and finds the text in it. */
static int opens(const EVP_CIPHER *cipher, const unsigned char *key, const widelane_aead_job *job,
                 const unsigned char *text) {
    unsigned char opened[LONGEST];
    int bytes = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int good = EVP_DecryptInit_ex(context, cipher, NULL, key, job->nonce) &&
               EVP_DecryptUpdate(context, NULL, &bytes, job->aad, (int)job->aad_length) &&
               EVP_DecryptUpdate(context, opened, &bytes, job->text, (int)job->text_length) &&
               EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, job->tag) &&
               EVP_DecryptFinal_ex(context, opened + bytes, &bytes) &&
               memcmp(opened, text, job->text_length) == 0;
    EVP_CIPHER_CTX_free(context);
    return good;
}

static int aeads(const widelane_crypto *crypto) {
    for (uint32_t algorithm = 0; algorithm <= WIDELANE_AEAD_ALGORITHM_CHACHA20_POLY1305;
         algorithm++) {
        const EVP_CIPHER *cipher = cipher_of(algorithm);
        size_t key_bytes = (size_t)EVP_CIPHER_get_key_length(cipher);
        unsigned char sealed[JOBS][LONGEST], tags[JOBS][16], nonces[JOBS][12], zeros[LONGEST] = {0};
        widelane_aead_job jobs[JOBS];
        widelane_aead_key *key = NULL;
        CHECK(widelane_aead_key_new(crypto, algorithm, texts[2], 15, &key) == ARGUMENT);
        CHECK(widelane_aead_key_new(crypto, algorithm, texts[2], key_bytes, &key) == OK);
        CHECK(RAND_bytes(nonces[0], sizeof nonces) == 1);
        memcpy(sealed, texts, sizeof sealed);
        for (int i = 0; i < JOBS; i++) {
            jobs[i] = (widelane_aead_job){key, nonces[i], texts[i], 13, sealed[i], length_of(i),
                                          tags[i], 99};
        }
        CHECK(widelane_aead_seal_many(jobs, JOBS) == OK);
        for (int i = 0; i < JOBS; i++) {
            CHECK(jobs[i].status == OK && opens(cipher, texts[2], &jobs[i], texts[i]));
        }
        tags[7][15] ^= 1;
        CHECK(widelane_aead_open_many(jobs, JOBS) == REJECTED);
        CHECK(jobs[7].status == REJECTED && memcmp(sealed[7], zeros, length_of(7)) == 0);
        CHECK(jobs[8].status == OK && memcmp(sealed[8], texts[8], length_of(8)) == 0);
        CHECK_APART(jobs, tag, jobs[3].text + 1, "text and tag",
                    widelane_aead_seal_many(jobs, JOBS));
        CHECK_APART(jobs, text, jobs[3].aad + 12, "aad and text",
                    widelane_aead_open_many(jobs, JOBS));
        jobs[1].nonce = NULL;
        CHECK_REFUSED(jobs, widelane_aead_seal_many(jobs, JOBS));
        CHECK(strcmp(widelane_last_error(), "job 1: nonce is null") == 0);
        CHECK(memcmp(sealed[8], texts[8], length_of(8)) == 0);
        widelane_aead_key_free(key);
    }
    return 0;
}

/* Whether OpenSSL decrypts a record to its text, with HMAC-SHA-1 where the mode puts it. */
static int is_record(uint32_t mode, const widelane_cbc_hmac_job *job, const unsigned char *text,
                     size_t length) {
    unsigned char plain[LONGEST + 80], message[13 + 16 + LONGEST + 80], tag[20];
    int bytes = 0;
    size_t encrypted = job->record_length - (mode == WIDELANE_CBC_HMAC_MODE_ENCRYPT_THEN_MAC) * 20;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int good = EVP_DecryptInit_ex(context, EVP_aes_128_cbc(), NULL, texts[3], job->iv) &&
               EVP_CIPHER_CTX_set_padding(context, 0) &&
               EVP_DecryptUpdate(context, plain, &bytes, job->record, (int)encrypted) &&
               (size_t)bytes == encrypted && memcmp(plain, text, length) == 0;
    EVP_CIPHER_CTX_free(context);
    memset(message, 0, 13);
    message[7] = (unsigned char)job->sequence;
    message[8] = job->kind;
    message[9] = message[10] = 3;
    const unsigned char *there = plain + length;
    size_t said = length, behind = 13;
    if (mode == WIDELANE_CBC_HMAC_MODE_ENCRYPT_THEN_MAC) {
        memcpy(message + 13, job->iv, 16);
        said = 16 + encrypted, behind = 29, there = job->record + encrypted, text = job->record;
    }
    message[11] = (unsigned char)(said >> 8), message[12] = (unsigned char)said;
    memcpy(message + behind, text, said + 13 - behind);
    return good && HMAC(EVP_sha1(), texts[4], 20, message, 13 + said, tag, NULL) &&
           memcmp(there, tag, 20) == 0;
}

static int cbc_hmacs(const widelane_crypto *crypto) {
    for (uint32_t mode = 0; mode <= WIDELANE_CBC_HMAC_MODE_ENCRYPT_THEN_MAC; mode++) {
        unsigned char records[JOBS][LONGEST + 80];
        widelane_cbc_hmac_job jobs[JOBS];
        widelane_cbc_hmac_key *key = NULL;
        CHECK(widelane_cbc_hmac_key_new(crypto, WIDELANE_CBC_HMAC_ALGORITHM_AES128_SHA1, mode,
                                        texts[3], 16, texts[4], 20, &key) == OK);
        CHECK(widelane_cbc_hmac_record_bytes(key, 70000) == 0);
        size_t longest = mode == WIDELANE_CBC_HMAC_MODE_ENCRYPT_THEN_MAC ? 65503 : 65531;
        CHECK(widelane_cbc_hmac_record_bytes(key, longest) > longest);
        CHECK(widelane_cbc_hmac_record_bytes(key, longest + 1) == 0);
        for (int i = 0; i < JOBS; i++) {
            memcpy(records[i], texts[i], length_of(i));
            jobs[i] = (widelane_cbc_hmac_job){
                .key = key, .iv = texts[5] + i, .sequence = (uint64_t)i, .version = 0x0303,
                .kind = 23, .record = records[i], .text_length = length_of(i), .status = 99,
                .record_length = widelane_cbc_hmac_record_bytes(key, length_of(i))};
        }
        CHECK_APART(jobs, record, jobs[3].iv + 15, "iv and record",
                    widelane_cbc_hmac_seal_many(jobs, JOBS));
        CHECK(widelane_cbc_hmac_seal_many(jobs, JOBS) == OK);
        for (int i = 0; i < JOBS; i++) {
            CHECK(jobs[i].status == OK && is_record(mode, &jobs[i], texts[i], length_of(i)));
            jobs[i].text_length = 0;
        }
        jobs[9].sequence++;
        CHECK(widelane_cbc_hmac_open_many(jobs, JOBS) == REJECTED);
        for (int i = 0; i < JOBS; i++) {
            CHECK(jobs[i].status == (i == 9 ? REJECTED : OK));
            CHECK(jobs[i].text_length == (i == 9 ? 0 : length_of(i)));
            CHECK(memcmp(records[i], texts[i], jobs[i].text_length) == 0);
        }
        CHECK(widelane_cbc_hmac_seal_many(&jobs[9], 1) == ARGUMENT);
        jobs[9].record_length = 17;
        CHECK(widelane_cbc_hmac_open_many(&jobs[9], 1) == REJECTED && jobs[9].status == REJECTED);
        widelane_cbc_hmac_key_free(key);
    }
    return 0;
}

/* Reads a number of a key, and says how long it is. */
static int number(const EVP_PKEY *key, const char *name, unsigned char *bytes, size_t *length) {
    BIGNUM *value = NULL;
    int good = EVP_PKEY_get_bn_param(key, name, &value);
    *length = good ? (size_t)BN_bn2bin(value, bytes) : 0;
    BN_free(value);
    return good;
}

static int rsa(const widelane_crypto *crypto) {
    static const unsigned char prefix[19] = {0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86,
                                             0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05,
                                             0x00, 0x04, 0x20};
    static const char *const names[7] = {
        OSSL_PKEY_PARAM_RSA_N, OSSL_PKEY_PARAM_RSA_E, OSSL_PKEY_PARAM_RSA_FACTOR1,
        OSSL_PKEY_PARAM_RSA_FACTOR2, OSSL_PKEY_PARAM_RSA_EXPONENT1, OSSL_PKEY_PARAM_RSA_EXPONENT2,
        OSSL_PKEY_PARAM_RSA_COEFFICIENT1};
    unsigned char numbers[7][256], encoded[JOBS][256], signatures[JOBS][256], digest[32];
    size_t lengths[7];
    EVP_PKEY *theirs = EVP_RSA_gen(2048);
    CHECK(theirs != NULL);
    for (int i = 0; i < 7; i++) {
        CHECK(number(theirs, names[i], numbers[i], &lengths[i]));
    }
    widelane_rsa_components components = {
        numbers[0], lengths[0], numbers[1], lengths[1], numbers[2], lengths[2], numbers[3],
        lengths[3], numbers[4], lengths[4], numbers[5], lengths[5], numbers[6], lengths[6]};
    widelane_rsa_key *key = NULL;
    numbers[4][20] ^= 1;
    CHECK(widelane_rsa_key_new(&components, &key) == WIDELANE_STATUS_KEY);
    CHECK(strstr(widelane_last_error(), "damaged") != NULL);
    numbers[4][20] ^= 1;
    CHECK(widelane_rsa_key_new(&components, &key) == OK);

    widelane_rsa_job jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        CHECK(EVP_Digest(texts[i], LONGEST, digest, NULL, EVP_sha256(), NULL));
        memset(encoded[i], 0xff, 256);
        encoded[i][0] = 0, encoded[i][1] = 1, encoded[i][204] = 0;
        memcpy(encoded[i] + 205, prefix, 19);
        memcpy(encoded[i] + 224, digest, 32);
        jobs[i] = (widelane_rsa_job){key, encoded[i], signatures[i], 256, 99};
    }
    CHECK(widelane_rsa_private_batch(crypto, jobs, JOBS) == OK);
    for (int i = 0; i < JOBS; i++) {
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        CHECK(jobs[i].status == OK);
        CHECK(EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, theirs) == 1);
        CHECK(EVP_DigestVerify(context, signatures[i], 256, texts[i], LONGEST) == 1);
        EVP_MD_CTX_free(context);
    }
    CHECK_APART(jobs, output, jobs[3].input, "input and output",
                widelane_rsa_private_batch(crypto, jobs, JOBS));
    memset(encoded[5], 0xff, 256);
    CHECK(widelane_rsa_private_batch(crypto, jobs, JOBS) == ARGUMENT);
    CHECK(jobs[5].status == ARGUMENT && jobs[6].status == OK && signatures[5][9] == 0);
    /* Of a wrong length no output is cleared, which has not as many bytes then. */
    memset(signatures[6], 7, 256);
    jobs[6].length = 255;
    CHECK(widelane_rsa_private_batch(crypto, &jobs[6], 1) == ARGUMENT);
    CHECK(signatures[6][0] == 7 && signatures[6][254] == 7);
    CHECK_REFUSED(jobs, widelane_rsa_private_batch(NULL, jobs, JOBS));
    widelane_rsa_key_free(key);
    EVP_PKEY_free(theirs);
    return 0;
}

/* Whether OpenSSL takes r || s for the signature of a digest. */
static int verifies(EVP_PKEY *key, const unsigned char *digest, const unsigned char *signature,
                    int bytes) {
    unsigned char der[128], *end = der;
    ECDSA_SIG *numbers = ECDSA_SIG_new();
    ECDSA_SIG_set0(numbers, BN_bin2bn(signature, bytes, NULL),
                   BN_bin2bn(signature + bytes, bytes, NULL));
    int length = i2d_ECDSA_SIG(numbers, &end);
    ECDSA_SIG_free(numbers);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key, NULL);
    int good = EVP_PKEY_verify_init(context) == 1 &&
               EVP_PKEY_verify(context, der, (size_t)length, digest, 32) == 1;
    EVP_PKEY_CTX_free(context);
    return good;
}

/* The secret that OpenSSL derives of two of its keys. */
static int derives(EVP_PKEY *ours, EVP_PKEY *peer, unsigned char *secret, size_t length) {
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(ours, NULL);
    int good = EVP_PKEY_derive_init(context) == 1 && EVP_PKEY_derive_set_peer(context, peer) == 1 &&
               EVP_PKEY_derive(context, secret, &length) == 1;
    EVP_PKEY_CTX_free(context);
    return good;
}

static int curves(const widelane_crypto *crypto) {
    for (uint32_t curve = 0; curve <= WIDELANE_CURVE_P384; curve++) {
        size_t bytes = curve == WIDELANE_CURVE_P256 ? 32 : 48, length;
        const char *name = curve == WIDELANE_CURVE_P256 ? "P-256" : "P-384";
        unsigned char scalar[48], points[JOBS][97], public_key[97], secret[48];
        unsigned char results[JOBS][96], entropy[32];
        EVP_PKEY *theirs[JOBS];
        widelane_ec_private_key *keys[JOBS];
        widelane_ec_public_key *publics[JOBS];
        widelane_ec_generate_job generate[JOBS];
        widelane_ec_derive_job derive[JOBS];
        widelane_ec_sign_job sign[JOBS];
        widelane_ec_verify_job verify[JOBS];
        memset(scalar, 0, bytes);
        CHECK(widelane_ec_private_key_new(curve, scalar, bytes, keys) == WIDELANE_STATUS_KEY);
        CHECK(RAND_bytes(entropy, 32) == 1);
        for (int i = 0; i < JOBS; i++) {
            theirs[i] = EVP_EC_gen(name);
            BIGNUM *number = NULL;
            CHECK(EVP_PKEY_get_bn_param(theirs[i], OSSL_PKEY_PARAM_PRIV_KEY, &number));
            CHECK(BN_bn2binpad(number, scalar, (int)bytes) == (int)bytes);
            BN_free(number);
            CHECK(widelane_ec_private_key_new(curve, scalar, bytes, &keys[i]) == OK);
            generate[i] = (widelane_ec_generate_job){keys[i], points[i], 1 + 2 * bytes, 99};
        }
        CHECK(widelane_ec_generate_batch(crypto, generate, JOBS) == OK);
        for (int i = 0; i < JOBS; i++) {
            CHECK(EVP_PKEY_get_octet_string_param(theirs[i], OSSL_PKEY_PARAM_PUB_KEY, public_key,
                                                  sizeof public_key, &length));
            CHECK(length == 1 + 2 * bytes && memcmp(points[i], public_key, length) == 0);
            CHECK(widelane_ec_public_key_new(curve, points[i], length, &publics[i]) == OK);
        }
        for (int i = 0; i < JOBS; i++) {
            derive[i] = (widelane_ec_derive_job){keys[i], publics[JOBS - 1 - i], results[i], bytes,
                                                 99};
        }
        CHECK(widelane_ec_derive_batch(crypto, derive, JOBS) == OK);
        for (int i = 0; i < JOBS; i++) {
            CHECK(derives(theirs[i], theirs[JOBS - 1 - i], secret, sizeof secret));
            CHECK(derive[i].status == OK && memcmp(results[i], secret, bytes) == 0);
            sign[i] = (widelane_ec_sign_job){keys[i], texts[i], 32, entropy, results[i], 2 * bytes,
                                             99};
            verify[i] = (widelane_ec_verify_job){publics[i], texts[i], 32, results[i], 2 * bytes,
                                                 99};
        }
        CHECK(widelane_ec_sign_batch(crypto, sign, JOBS) == OK);
        for (int i = 0; i < JOBS; i++) {
            CHECK(sign[i].status == OK && verifies(theirs[i], texts[i], results[i], (int)bytes));
        }
        CHECK(widelane_ec_verify_batch(crypto, verify, JOBS) == OK);
        results[18][3] ^= 1;
        CHECK(widelane_ec_verify_batch(crypto, verify, JOBS) == REJECTED);
        CHECK(verify[18].status == REJECTED && verify[17].status == OK);
        CHECK_APART(generate, public_key, generate[3].private_key, "private_key and public_key",
                    widelane_ec_generate_batch(crypto, generate, JOBS));
        CHECK_APART(derive, shared, derive[3].peer, "peer and shared",
                    widelane_ec_derive_batch(crypto, derive, JOBS));
        CHECK_APART(sign, signature, sign[3].digest + 31, "digest and signature",
                    widelane_ec_sign_batch(crypto, sign, JOBS));
        CHECK_APART(sign, signature, sign[3].entropy, "entropy and signature",
                    widelane_ec_sign_batch(crypto, sign, JOBS));
        /* A length that is not the curve's is the caller's mistake, whatever the job, and no place
           is cleared as far as it says. */
        generate[2].public_key_length = (size_t)1 << 40, derive[3].shared_length--;
        sign[5].signature_length++, verify[5].signature_length--;
        memset(points[2], 7, sizeof points[2]), memset(results[3], 7, sizeof results[3]);
        sign[5].signature = points[2];
        CHECK(widelane_ec_generate_batch(crypto, generate, JOBS) == ARGUMENT);
        CHECK(generate[2].status == ARGUMENT && generate[3].status == OK);
        CHECK(widelane_ec_derive_batch(crypto, derive, JOBS) == ARGUMENT);
        CHECK(derive[3].status == ARGUMENT && derive[4].status == OK);
        CHECK(results[3][0] == 7);
        CHECK(widelane_ec_sign_batch(crypto, sign, JOBS) == ARGUMENT);
        CHECK(sign[5].status == ARGUMENT && sign[6].status == OK);
        CHECK(points[2][0] == 7 && points[2][96] == 7);
        CHECK(widelane_ec_verify_batch(crypto, verify, JOBS) == ARGUMENT);
        CHECK(verify[5].status == ARGUMENT && verify[6].status == OK);
        CHECK(strstr(widelane_last_error(), "job 5: a length") != NULL);
        points[0][7] ^= 1;
        widelane_ec_public_key *bad = NULL;
        CHECK(widelane_ec_public_key_new(curve, points[0], 1 + 2 * bytes, &bad) ==
              WIDELANE_STATUS_KEY);
        for (int i = 0; i < JOBS; i++) {
            widelane_ec_private_key_free(keys[i]);
            widelane_ec_public_key_free(publics[i]);
            EVP_PKEY_free(theirs[i]);
        }
    }
    return 0;
}

static int curve25519(const widelane_crypto *crypto) {
    unsigned char points[JOBS][32], secrets[JOBS][32], expected[32], signatures[JOBS][64];
    size_t length = 32;
    EVP_PKEY *theirs[JOBS];
    widelane_x25519_key *keys[JOBS];
    widelane_ed25519_key *signing[JOBS];
    widelane_x25519_generate_job generate[JOBS];
    widelane_x25519_derive_job derive[JOBS];
    widelane_ed25519_sign_job sign[JOBS];
    widelane_ed25519_verify_job verify[JOBS];
    for (int i = 0; i < JOBS; i++) {
        theirs[i] = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, texts[i], 32);
        CHECK(widelane_x25519_key_new(texts[i], &keys[i]) == OK);
        generate[i] = (widelane_x25519_generate_job){keys[i], points[i], 99};
        derive[i] = (widelane_x25519_derive_job){keys[i], points[JOBS - 1 - i], secrets[i], 99};
    }
    CHECK(widelane_x25519_generate_batch(crypto, generate, JOBS) == OK);
    CHECK(widelane_x25519_derive_batch(crypto, derive, JOBS) == OK);
    for (int i = 0; i < JOBS; i++) {
        CHECK(EVP_PKEY_get_raw_public_key(theirs[i], expected, &length) == 1);
        CHECK(generate[i].status == OK && memcmp(points[i], expected, 32) == 0);
        CHECK(derives(theirs[i], theirs[JOBS - 1 - i], expected, 32));
        CHECK(derive[i].status == OK && memcmp(secrets[i], expected, 32) == 0);
    }
    CHECK_APART(generate, public_key, generate[3].private_key, "private_key and public_key",
                widelane_x25519_generate_batch(crypto, generate, JOBS));
    CHECK_APART(derive, shared, derive[3].peer + 1, "peer and shared",
                widelane_x25519_derive_batch(crypto, derive, JOBS));
    memset(points[0], 0, 32);
    CHECK(widelane_x25519_derive_batch(crypto, derive, JOBS) == REJECTED);
    CHECK(derive[JOBS - 1].status == REJECTED && derive[0].status == OK);

    for (int i = 0; i < JOBS; i++) {
        CHECK(widelane_ed25519_key_new(texts[i], &signing[i]) == OK);
        CHECK(widelane_ed25519_public_key(signing[i], points[i]) == OK);
        sign[i] = (widelane_ed25519_sign_job){signing[i], texts[i], length_of(i), signatures[i], 99};
        verify[i] = (widelane_ed25519_verify_job){points[i], texts[i], length_of(i), signatures[i],
                                                  99};
    }
    CHECK(widelane_ed25519_sign_batch(crypto, sign, JOBS) == OK);
    for (int i = 0; i < JOBS; i++) {
        EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, texts[i], 32);
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        CHECK(sign[i].status == OK);
        CHECK(EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1);
        CHECK(EVP_DigestVerify(context, signatures[i], 64, texts[i], length_of(i)) == 1);
        EVP_MD_CTX_free(context);
        EVP_PKEY_free(key);
    }
    CHECK_APART(sign, signature, sign[3].message + 1, "message and signature",
                widelane_ed25519_sign_batch(crypto, sign, JOBS));
    CHECK(widelane_ed25519_verify_batch(crypto, verify, JOBS) == OK);
    signatures[2][40] ^= 1;
    CHECK(widelane_ed25519_verify_batch(crypto, verify, JOBS) == REJECTED);
    CHECK(verify[2].status == REJECTED && verify[3].status == OK);
    CHECK_REFUSED(verify, widelane_ed25519_verify_batch(NULL, verify, JOBS));
    verify[3].signature = NULL;
    CHECK_REFUSED(verify, widelane_ed25519_verify_batch(crypto, verify, JOBS));
    for (int i = 0; i < JOBS; i++) {
        widelane_x25519_key_free(keys[i]);
        widelane_ed25519_key_free(signing[i]);
        EVP_PKEY_free(theirs[i]);
    }
    return 0;
}

/* OpenSSL 3.0 has no ML-KEM: both sides are ours, and the tests in Rust know others. */
static int ml_kem(const widelane_crypto *crypto) {
    unsigned char publics[JOBS][1568], privates[3168], ciphertexts[JOBS][1568];
    unsigned char theirs[JOBS][32], ours[JOBS][32];
    for (uint32_t set = 0; set <= WIDELANE_ML_KEM_PARAMETER_SET_ML_KEM1024; set++) {
        widelane_ml_kem_key *keys[JOBS], *copy = NULL;
        widelane_ml_kem_generate_job generate[JOBS];
        widelane_ml_kem_encapsulate_job encapsulate[JOBS];
        widelane_ml_kem_decapsulate_job decapsulate[JOBS];
        size_t private_bytes = widelane_ml_kem_private_key_bytes(set);
        CHECK(widelane_ml_kem_public_key_bytes(set) <= sizeof publics[0]);
        CHECK(widelane_ml_kem_ciphertext_bytes(set) <= sizeof ciphertexts[0]);
        CHECK(private_bytes <= sizeof privates);
        for (int i = 0; i < JOBS; i++) {
            generate[i] = (widelane_ml_kem_generate_job){texts[i], &keys[i], 99};
        }
        CHECK(widelane_ml_kem_generate_batch(crypto, set, generate, JOBS) == OK);
        for (int i = 0; i < JOBS; i++) {
            CHECK(generate[i].status == OK);
            CHECK(widelane_ml_kem_public_key(keys[i], publics[i]) == OK);
            encapsulate[i] = (widelane_ml_kem_encapsulate_job){publics[i], texts[i] + 64,
                                                               ciphertexts[i], theirs[i], 99};
            decapsulate[i] =
                (widelane_ml_kem_decapsulate_job){keys[i], ciphertexts[i], ours[i], 99};
        }
        CHECK(widelane_ml_kem_private_key(keys[0], privates) == OK);
        CHECK(widelane_ml_kem_key_new(crypto, set, privates, private_bytes, &copy) == OK);
        decapsulate[0].key = copy;
        CHECK(widelane_ml_kem_encapsulate_batch(crypto, set, encapsulate, JOBS) == OK);
        CHECK(widelane_ml_kem_decapsulate_batch(crypto, decapsulate, JOBS) == OK);
        CHECK(memcmp(ours, theirs, sizeof ours) == 0);
        CHECK(memcmp(ours[0], ours[1], 32) != 0);
        /* A spoiled ciphertext is answered, with another secret. */
        ciphertexts[2][5] ^= 1;
        CHECK(widelane_ml_kem_decapsulate_batch(crypto, decapsulate, JOBS) == OK);
        CHECK(memcmp(ours[2], theirs[2], 32) != 0 && memcmp(ours[3], theirs[3], 32) == 0);
        memset(publics[1], 0xff, 3);
        CHECK(widelane_ml_kem_encapsulate_batch(crypto, set, encapsulate, JOBS) == REJECTED);
        CHECK(encapsulate[1].status == REJECTED && encapsulate[2].status == OK);
        CHECK_APART(encapsulate, shared, encapsulate[3].message, "message and shared",
                    widelane_ml_kem_encapsulate_batch(crypto, set, encapsulate, JOBS));
        CHECK_APART(encapsulate, ciphertext, encapsulate[3].public_key, "public_key and ciphertext",
                    widelane_ml_kem_encapsulate_batch(crypto, set, encapsulate, JOBS));
        CHECK_APART(decapsulate, shared, decapsulate[3].ciphertext + 9, "ciphertext and shared",
                    widelane_ml_kem_decapsulate_batch(crypto, decapsulate, JOBS));
        encapsulate[3].shared = NULL;
        CHECK_REFUSED(encapsulate,
                      widelane_ml_kem_encapsulate_batch(crypto, set, encapsulate, JOBS));
        privates[private_bytes - 40] ^= 1;
        widelane_ml_kem_key *bad = NULL;
        CHECK(widelane_ml_kem_key_new(crypto, set, privates, private_bytes, &bad) ==
              WIDELANE_STATUS_KEY);
        CHECK(widelane_ml_kem_key_new(crypto, set, privates, 7, &bad) == WIDELANE_STATUS_KEY);
        widelane_ml_kem_key_free(copy);
        for (int i = 0; i < JOBS; i++) {
            widelane_ml_kem_key_free(keys[i]);
        }
        for (uint32_t refused = 0; refused < 2; refused++) {
            for (int i = 0; i < JOBS; i++) {
                keys[i] = (widelane_ml_kem_key *)texts;
            }
            /* A parameter set that does not exist, and then a null pointer. */
            uint32_t asked = refused == 0 ? 3 : set;
            CHECK_REFUSED(generate, widelane_ml_kem_generate_batch(crypto, asked, generate, JOBS));
            for (int i = 0; i < JOBS; i++) {
                CHECK(keys[i] == NULL);
            }
            generate[3].seed = NULL;
        }
    }
    /* What is asked of nothing does not fail, and leaves the text of the last error. */
    const char *why = widelane_last_error();
    CHECK(widelane_ml_kem_ciphertext_bytes(3) == 0 && widelane_crypto_lanes(NULL) == 0);
    CHECK(widelane_cbc_hmac_record_bytes(NULL, 1) == 0 && widelane_last_error() == why);
    return 0;
}

int main(void) {
    static const uint32_t widths[] = {0, 128, 256, 512};
    widelane_crypto *crypto = NULL;
    CHECK(RAND_bytes(texts[0], sizeof texts) == 1);
    CHECK(widelane_crypto_choose(64, &crypto) == ARGUMENT);
    CHECK(widelane_crypto_lanes(NULL) == 0);
    for (int i = 0; i < 4; i++) {
        CHECK(widelane_crypto_choose(widths[i], &crypto) == OK);
        size_t lanes = widelane_crypto_lanes(crypto);
        CHECK(lanes == 1 || lanes == 4 || lanes == 8);
        if (refused_batches(crypto) || refused_keys(crypto) || hashes(crypto) || aeads(crypto) ||
            cbc_hmacs(crypto) || rsa(crypto) || curves(crypto) || curve25519(crypto) ||
            ml_kem(crypto)) {
            return 1;
        }
        widelane_crypto_free(crypto);
    }
    puts("done");
    return 0;
}
