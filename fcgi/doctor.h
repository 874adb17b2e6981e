/* What the checks of `doctor` share: doctor_state.c looks at the state directory, cmd_doctor.c at the rest of
 * the host and prints. */
#ifndef FCGI_DOCTOR_H
#define FCGI_DOCTOR_H

#include "lib/config/config.h"

enum level { LEVEL_OK, LEVEL_WARN, LEVEL_FAIL };

/* One row of the answer. */
struct finding {
    enum level level;
    char text[600], cure[600];
};
typedef void doctor_check(const struct config *config, struct finding *f);

/* cure may be NULL. */
void doctor_say(struct finding *f, enum level level, const char *cure, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* The message is "problem: cure"; the error is cleared. */
void doctor_say_error(struct finding *f, enum level level, struct error *err);

doctor_check doctor_user, doctor_state_directory, doctor_folders_above, doctor_path_length, doctor_space,
    doctor_warden;
/* Last: as root it becomes the owner of the state directory. */
doctor_check doctor_store;

#endif
