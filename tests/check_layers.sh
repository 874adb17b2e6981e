#!/bin/sh
# Proves the layers: a file includes only what lies lower, and each foreign header belongs to one folder.
set -u
cd "$(dirname "$0")/.." || exit 1
rank() {
    case $1 in
    lib/base/*) echo 0 ;; lib/schema/*) echo 1 ;; lib/config/*) echo 2 ;; lib/wire/*) echo 3 ;; lib/store/*) echo 4 ;; lib/remote/*) echo 5 ;;
    lib/driver/*) echo 6 ;; lib/egress/*) echo 7 ;; lib/text/*) echo 3 ;; lib/keeper/*) echo 8 ;; lib/warden/*) echo 9 ;; lib/op/*) echo 10 ;;
    lib/agent/*) echo 50 ;; fcgi/*) echo 60 ;; *) echo 99 ;;
    esac
}
bad=0
for f in $(find lib fcgi -name '*.[ch]'); do
    own=$(rank "$f")
    [ "$own" != 99 ] || { echo "$f lies in no room"; bad=1; }
    for i in $(sed -n 's/^#include "\(.*\)".*/\1/p' "$f"); do
        theirs=$(rank "$i")
        case $f in
        lib/agent/*) case $i in lib/base/* | lib/schema/* | lib/wire/* | lib/text/* | lib/agent/*) ;; *) echo "$f includes $i: the agent sees base, schema and wire only"; bad=1 ;; esac ;;
        *)
            case $i in lib/agent/*) echo "$f includes $i of the agent"; bad=1 ;; esac
            [ "$theirs" -le "$own" ] || { echo "$f includes $i, which lies higher"; bad=1; }
            ;;
        esac
    done
done
only() { # header pattern, folder
    found=$(grep -rlE "#include <$1>" lib fcgi | grep -v "^$2" || true)
    [ -z "$found" ] || { echo "<$1> belongs to $2, not to: $found"; bad=1; }
}
only 'lmdb\.h' lib/store/
only 'seccomp\.h' lib/driver/local/
only 'sodium\.h' lib/base/ids.c
only 'curl/.*' lib/remote/
only 'git2\.h' lib/agent/
only 'yaml\.h' lib/agent/syntax/
only 'fcgi.*\.h|fastcgi\.h' fcgi/
only 'check\.h' tests/
[ $bad = 0 ] && echo "layers: fine"
exit $bad
