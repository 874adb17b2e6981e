/* What sandboxed code may try: each attempt says true where it got what it wanted, and notes what that was.
 * Is compiled inside a sandbox; knows nothing of the gateway but names that anybody there can see. */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#include <stdbool.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

extern int secret_count;
extern char **secrets; /* DEVICE:INODE of what must stay out of reach */
extern const char *abstract_name, *socket_path;

extern char note[400]; /* what an attempt got, for the report */
#define got(...) (snprintf(note, sizeof note, __VA_ARGS__), true)

bool opens(const char *path, int flags);

/* hostile_files.c */
bool by_proc(void);
bool by_symbolic_link(void);
bool by_path(void);
bool by_chroot(void);
bool inherited_descriptors(void);
bool descriptors_of_everybody(void);
bool replaces_programs(void);
bool makes_files(void);

/* hostile_guards.c */
bool reads_guards(void);
bool namespaces_of_guards(void);
bool writes_guards(void);
bool traces_guards(void);
bool memory_of_guards(void);
bool descriptors_of_guards(void);
bool limits_of_guards(void);
bool signals_to_first(void);

/* hostile_calls.c */
bool all_calls(void);
bool calls_of_ia32(void);
bool joins_own_namespaces(void);

/* hostile_rights.c */
bool abstract_sockets(void);
bool path_sockets(void);
bool becomes_another(void);
bool mounts_let_in(void);
bool opens_devices(void);
bool set_user_bits(void);
bool kernel_settings(void);
bool network_of_the_host(void);

#endif
