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

#endif
