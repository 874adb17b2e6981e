/* The named rules for strings that operations share (facts of the wire contract: remote-path rule, names,
 * ids). */
#ifndef SCHEMA_FORMATS_H
#define SCHEMA_FORMATS_H

#include "lib/schema/field.h"

extern const struct field_format format_workspace_id, format_exec_id, format_watch_id;
extern const struct field_format format_name; /* 1-63 of letters, digits . _ - */
extern const struct field_format
    format_remote_path;                             /* absolute, no NUL, no "..", <= 4096 after normalising */
extern const struct field_format format_mount_path; /* the same, and not "/" (nor "//") */
extern const struct field_format format_image_name, format_image_id, format_package;
extern const struct field_format format_env_name; /* not empty, no '=', no NUL */
extern const struct field_format format_cidr, format_domain;
extern const struct field_format format_no_nul;
extern const struct field_format format_file_match; /* what a file is known by: sha256:, stat:, or * */
extern const struct field_format format_byte_range; /* of the Range header: any set of ranges of bytes */
extern const struct field_format format_tag_key;    /* 1-100 characters */
extern const struct field_format format_base64;     /* RFC 4648 section 4, with padding; may be empty */
extern const struct field_format format_signal;     /* TERM, SIGTERM, term ... of the ten that cancel takes */

/* POSIX pure-path normalisation: "/a/./b/" -> "/a/b"; two leading slashes become one. Caller frees. */
char *format_normalise_path(const char *path);
/* "10.0.0.1/24" -> "10.0.0.0/24", bare address -> /32 or /128. NULL where it is none. Caller frees. */
char *format_normalise_cidr(const char *text);

#endif
