/* Calls that make or end a workspace. Each goes on by itself: an answer, or the worker's half. */
#ifndef FCGI_ACTIONS_H
#define FCGI_ACTIONS_H

#include "fcgi/dispatch.h"

void actions_create(struct flight *f);
void actions_terminate(struct flight *f);
void actions_stop(struct flight *f);
/* Of a call that names no workspace: it gets the principal's own, or is left without where there is none,
 * which it may make then. */
int actions_find_default(struct flight *f, struct error *err);
/* The principal's own workspace, where it has none; the call goes on in it. */
void actions_create_default(struct flight *f);
/* err is of a call that named no workspace, and says that the one it was given is gone. */
bool actions_lost_default(struct flight *f, const struct error *err);
/* The same of its keeper's answer: as if the call came now. False = it did not, and err stands. */
bool actions_look_again(struct flight *f, const struct error *err);
/* The making of f's workspace was given up. Without a key nobody can ask for it again. */
void actions_take_back(struct flight *f);

#endif
