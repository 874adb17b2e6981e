/* Ids: prefix and 32 lowercase hex digits from getrandom(2). Also hashes of tokens and comparing secrets. */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include <stdbool.h>
#include <stddef.h>

#define ID_SIZE 36 /* "ws-" + 32 + NUL */
enum id_kind { ID_WORKSPACE, ID_EXEC, ID_WATCH, ID_SANDBOX };

void id_make(enum id_kind kind, char id[static ID_SIZE]); /* ws- ex- fw- sb- */
bool id_is_valid(enum id_kind kind, const char *text);    /* NULL is not */
void id_random(void *data, size_t length);
void id_random_hex(char *text, size_t digits);      /* digits + NUL */
bool id_secret_equal(const char *a, const char *b); /* time depends on b's length only */
#define ID_HASH_SIZE 65
void id_hash(const void *data, size_t length, char hex[static ID_HASH_SIZE]); /* SHA-256 (libsodium) */

#endif
