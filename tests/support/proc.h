/* What /proc says of a process; 0 where there is none or no such thing. */
#ifndef TESTS_PROC_H
#define TESTS_PROC_H

#include <sys/types.h>

double proc_pss_kib(pid_t pid);
double proc_anonymous_kib(pid_t pid); /* without the pages of files, such as a log that is mapped */
pid_t proc_parent(pid_t pid);
pid_t proc_first_child(pid_t pid);

#endif
