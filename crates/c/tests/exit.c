/* A program in C that calls libwidelane_c while its threads and the process end, when the variables
   of a thread are gone; tests/c.rs compiles and runs it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "widelane.h"

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, widelane_last_error());   \
            _exit(1);                                                                             \
        }                                                                                         \
    } while (0)

static widelane_crypto *crypto;
static pthread_key_t at_end;
static int ended;

/* A call that fails, and one that works in the memory of its thread; whether errors have a text. */
static void calls(int has_text) {
    unsigned char seed[64] = {1, 2, 3}, public_key[800], message[32] = {4}, ciphertext[768];
    unsigned char theirs[32], ours[32];
    const uint32_t set = WIDELANE_ML_KEM_PARAMETER_SET_ML_KEM512;
    widelane_ml_kem_key *key = NULL;
    widelane_crypto *none = NULL;
    CHECK(widelane_crypto_choose(7, &none) == WIDELANE_STATUS_ARGUMENT);
    CHECK((strlen(widelane_last_error()) != 0) == has_text);
    widelane_ml_kem_generate_job generate = {seed, &key, 99};
    CHECK(widelane_ml_kem_generate_batch(crypto, set, &generate, 1) == WIDELANE_STATUS_OK);
    CHECK(widelane_ml_kem_public_key(key, public_key) == WIDELANE_STATUS_OK);
    widelane_ml_kem_encapsulate_job encapsulate = {public_key, message, ciphertext, theirs, 99};
    CHECK(widelane_ml_kem_encapsulate_batch(crypto, set, &encapsulate, 1) == WIDELANE_STATUS_OK);
    widelane_ml_kem_decapsulate_job decapsulate = {key, ciphertext, ours, 99};
    CHECK(widelane_ml_kem_decapsulate_batch(crypto, &decapsulate, 1) == WIDELANE_STATUS_OK);
    CHECK(memcmp(ours, theirs, 32) == 0);
    widelane_ml_kem_key_free(key);
    CHECK(widelane_ml_kem_generate_batch(NULL, set, &generate, 1) == WIDELANE_STATUS_ARGUMENT);
}

static void end_of_thread(void *argument) {
    (void)argument;
    calls(0);
    ended++;
}

static void *thread(void *argument) {
    CHECK(pthread_setspecific(at_end, argument) == 0);
    calls(1);
    return NULL;
}

static void end_of_process(void) {
    calls(0);
    CHECK(ended == 1);
    puts("done");
}

int main(void) {
    pthread_t other;
    CHECK(widelane_crypto_choose(0, &crypto) == WIDELANE_STATUS_OK);
    CHECK(pthread_key_create(&at_end, end_of_thread) == 0);
    CHECK(pthread_create(&other, NULL, thread, &ended) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(atexit(end_of_process) == 0);
    calls(1);
    return 0;
}
