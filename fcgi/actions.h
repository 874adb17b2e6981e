/* Calls that make or end a workspace. Each goes on by itself: an answer, or the worker's half. */
#ifndef FCGI_ACTIONS_H
#define FCGI_ACTIONS_H

#include "fcgi/dispatch.h"

void actions_create(struct flight *f);
void actions_terminate(struct flight *f);
void actions_stop(struct flight *f);
/* The principal's own workspace, where it has none; the call goes on in it. */
void actions_create_default(struct flight *f);
/* It is there: the call's workspace. */
int actions_take_default(struct flight *f, struct error *err);
/* The making of f's workspace was given up. Without a key nobody can ask for it again. */
void actions_take_back(struct flight *f);

#endif
