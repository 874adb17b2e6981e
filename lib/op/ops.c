/* The list of operations, in the order of the documents. A row lives beside its handlers in op_*.c; here it
 * gets its one line. */
#include "lib/op/ops.h"

const struct op *const ops[] = {
    &op_create_workspace,
    &op_list_workspaces,
    &op_get_workspace,
    &op_terminate_workspace,
    &op_stop_workspace,
    &op_extend_workspace,
    &op_exec,
    &op_start_exec,
    &op_list_execs,
    &op_exec_events,
    &op_exec_status,
    &op_exec_input,
    &op_exec_cancel,
    &op_exec_resize,
    &op_read_file,
    &op_write_file,
    &op_edit_file,
    &op_list_directory,
    &op_search_files,
    &op_grep_files,
    &op_bash,
    &op_make_directory,
    &op_move_file,
    &op_remove_file,
    &op_download_file,
    &op_upload_file,
    NULL,
};
