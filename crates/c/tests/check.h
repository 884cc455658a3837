/* What the test programs have in common. */
#include <stdio.h>

#include "widelane.h"

/* Ends a function of a test with 1, and says why, unless the condition holds. */
#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, widelane_last_error());   \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

#define OK WIDELANE_STATUS_OK
