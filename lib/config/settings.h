/* The table behind config.h. For lib/config alone. */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum setting_type { SETTING_TEXT, SETTING_INTEGER };

/* NULL = the text is fine, else what is wrong with it: "must be ..." */
typedef const char *setting_rule(const char *text);

struct setting {
    const char *name;
    enum setting_type type;
    size_t offset; /* in struct config */
    const char *dflt;
    int64_t min, max;
    setting_rule *rule;
    bool secret;
    bool not_local; /* a text that has no effect with the local driver */
    bool not_yet;   /* what it is for is not there yet */
    const char *aliases[2];
    const char *help;
};
extern const struct setting settings[];
extern const size_t setting_count;

const struct setting *setting_find(const char *name, bool *ret_is_alias);

#endif
