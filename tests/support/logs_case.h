/* What the suites on logs share: a state directory, a workspace in it, and what was logged about them. */
#ifndef SUPPORT_LOGS_CASE_H
#define SUPPORT_LOGS_CASE_H

#include "lib/base/error.h"
#include "lib/base/ids.h"
#include "lib/store/events.h"

#define KB 1024
#define MB (1024 * 1024)

extern struct error logs_error;      /* cleared after the test */
extern char logs_workspace[ID_SIZE]; /* another one for each test */
void logs_set_up(void);
void logs_tear_down(void); /* takes also a disk away that was mounted at "disk" in the state directory */

struct events_writer *logs_open_writer(void); /* the caller's, with a small map and a large log */
bool logs_told(const char *text);             /* a warning or worse */

#endif
