/* The program's version, as documents and peers see it. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define WORKSPACE_NAME    "workspace-fcgi"
#define WORKSPACE_VERSION "0.1.0"

#endif
