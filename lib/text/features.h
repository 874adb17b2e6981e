/* Kinds of lines that no pattern describes: bars, spinners, entries of listings. */
#ifndef TEXT_FEATURES_H
#define TEXT_FEATURES_H

#include "lib/text/rows.h"

/* KIND_PLAIN, KIND_PROGRESS, KIND_LISTING or KIND_NAME. tokens: runs without blanks, at least 1. */
enum line_kind feature_kind(const char *line, size_t length, size_t tokens);
/* A line of source or data: it is content, even where many look alike. */
bool feature_is_code(const char *line, size_t length);

#endif
