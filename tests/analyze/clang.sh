#!/bin/sh
# Clang's static analyzer over one file: clang.sh FILE STAMP FLAG... makes STAMP where all is well. What it finds is shown, with the way
# there, and fails, unless clang.supp answers it; so does a plain warning of the compiler.
set -eu
file=$1 stamp=$2
shift 2
log=${stamp%.ok}.log
clang --analyze --analyzer-output text "$@" -MF "${stamp%.ok}.d" -MT "$stamp" "$file" 2>"$log" || { cat "$log"; exit 1; }
awk '
    FNR == NR { if ($0 != "" && $0 !~ /^#/) answered[$0] = 1; next }
    /: (warning|error): / { finding = $0; sub(/:[0-9]+:[0-9]+: warning/, "", finding); open = !(finding in answered); found += open }
    open && !/^[0-9]+ warnings? generated/
    END { exit found > 0 }
' tests/analyze/clang.supp "$log" || { echo "$file: not clean, see above"; exit 1; }
touch "$stamp"
