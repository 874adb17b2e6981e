/* Names of files in answers, and the folders that listings and searches leave out. */
#ifndef SEARCH_NAMES_H
#define SEARCH_NAMES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What tools keep for themselves; NULL-ended. */
extern const char *const names_hidden[];
bool names_is_hidden(const char *name);
/* "name" and, where it is not UTF-8, "name_base64": the member's own name is given. */
void names_put(json_t *object, const char *member, const char *name, size_t length);

#endif
