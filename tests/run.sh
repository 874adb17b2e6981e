#!/bin/sh
# Runs test programs: run.sh BUILD PROGRAM[:AS]... [-- PROGRAM[:AS]...]. Those before the -- run one after the other; those after it, each a
# process or two, share the cores afterwards, two to a core since most wait. A log of each is kept in BUILD/logs; that of a failure is shown.
# Exit status 77 of a program = skipped. UNDER is a command that runs each (setarch -R, valgrind ...). With RETRY=1 one that failed is run once
# more, alone: passing then counts and is said as FLAKY, with what the first run showed (machines that build this are shared, and some bounds are
# times). Closes with "N passed, N failed, N skipped".
set -u
# Some tests become www-data, and some put a tmpfs over /tmp: below a closed folder (a clone in /root) or /tmp they run from another name of
# this one, in a mount namespace of their own.
elsewhere() {
    case $PWD in /tmp/*) return 0 ;; esac
    ! setpriv --reuid www-data --regid www-data --clear-groups test -r "$PWD/Makefile" 2>/dev/null
}
if [ "$(id -u)" = 0 ] && [ -z "${REACHED:-}" ] && elsewhere; then
    here=$(mktemp -d /var/tmp/wsf-check-XXXXXX)
    chmod 755 "$here"
    REACHED=1 unshare -m --propagation private sh -c 'mount --bind "$PWD" "$0" && cd "$0" && exec tests/run.sh "$@"' "$here" "$@"
    status=$?
    rmdir "$here"
    exit $status
fi
build=$1
shift
mkdir -p "$build/logs"
results=$(mktemp -d /var/tmp/wsf-results-XXXXXX)
trap 'rm -rf "$results"' EXIT

name_of() {
    name=$(basename "${1%%:*}")
    [ "${1%%:*}" = "$1" ] || name=$name-as-${1#*:}
    log=$build/logs/$name.log
}

# Sets status, 0, 77 or a failure.
run() {
    as=
    [ "${1%%:*}" = "$1" ] || as=${1#*:}
    AS=$as timeout -k 10 "${TEST_TIMEOUT:-400}" ${UNDER:-} "${1%%:*}" >"$log" 2>&1 </dev/null
    status=$?
}

is_failure() { [ $status != 0 ] && [ $status != 77 ]; }

tell() {
    case $status in
    0) word=PASS ;;
    77) word=SKIP ;;
    *) word=FAIL ;;
    esac
    echo $word >>"$results/words"
    printf '%s %6d ms  %s%s\n' $word $(($(date +%s%N) / 1000000 - begun)) "$name" "$([ $word = SKIP ] && tail -1 "$log" | sed 's/^/: /')"
    [ $word != FAIL ] || { echo "--- $log (status $status)"; grep -v ': Passed$' "$log" | tail -40; echo "---"; }
}

try_again() {
    echo "FLAKY? $name failed (status $status):"
    grep -v ': Passed$' "$log" | tail -20
    sleep 2
    run "$1"
}

one() {
    name_of "$1"
    begun=$(($(date +%s%N) / 1000000))
    run "$1"
    if is_failure && [ -n "${RETRY:-}" ]; then try_again "$1"; fi
    tell
}

# Takes whatever nobody took; what failed waits until all is quiet.
lane() {
    for item in "$@"; do
        name_of "$item"
        mkdir "$results/$name" 2>/dev/null || continue
        begun=$(($(date +%s%N) / 1000000))
        run "$item"
        if is_failure && [ -n "${RETRY:-}" ]; then
            echo $status >"$results/$name/failed"
        else
            tell
        fi
    done
}

while [ $# -gt 0 ] && [ "$1" != -- ]; do
    one "$1"
    shift
done
[ $# = 0 ] || shift
lanes=0
while [ $lanes -lt $((2 * $(nproc))) ]; do
    lane "$@" &
    lanes=$((lanes + 1))
done
wait
for item in "$@"; do
    name_of "$item"
    [ -e "$results/$name/failed" ] || continue
    status=$(cat "$results/$name/failed")
    begun=$(($(date +%s%N) / 1000000))
    try_again "$item"
    tell
done
count() { grep -c "^$1" "$results/words" 2>/dev/null || true; }
passed=$(count PASS) failed=$(count FAIL) skipped=$(count SKIP)
echo "${passed:-0} passed, ${failed:-0} failed, ${skipped:-0} skipped"
[ "${failed:-0}" = 0 ] && { [ -z "${NO_SKIP:-}" ] || [ "${skipped:-0}" = 0 ]; }
