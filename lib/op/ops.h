/* The rows by name, for ops.c alone. */
#ifndef OP_OPS_H
#define OP_OPS_H

#include "lib/op/op.h"

/* op_create.c */
extern const struct op op_create_workspace;
/* op_workspace.c */
extern const struct op op_list_workspaces, op_get_workspace, op_terminate_workspace, op_stop_workspace,
    op_extend_workspace;
/* op_exec.c */
extern const struct op op_exec, op_start_exec;
/* op_events.c */
extern const struct op op_exec_events;
/* op_realtime.c */
extern const struct op op_exec_status, op_list_execs;
/* op_steer.c */
extern const struct op op_exec_input, op_exec_cancel, op_exec_resize;
/* op_file.c */
extern const struct op op_read_file, op_write_file;
/* op_edit.c */
extern const struct op op_edit_file;
/* op_bash.c */
extern const struct op op_bash;
/* op_raw.c */
extern const struct op op_download_file, op_inspect_file, op_upload_file;
/* op_folder.c */
extern const struct op op_list_directory, op_make_directory, op_move_file, op_remove_file;
/* op_search.c */
extern const struct op op_search_files;
/* op_grep.c */
extern const struct op op_grep_files;
/* op_watch.c */
extern const struct op op_start_watch, op_list_watches, op_watch_status, op_cancel_watch;
/* op_watch_events.c */
extern const struct op op_watch_events;

#endif
