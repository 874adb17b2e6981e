#!/bin/sh
# Runs test programs one after the other: run.sh BUILD PROGRAM[:AS]... A log of each is kept in BUILD/logs; that of a failure is shown.
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
passed=0 failed=0 skipped=0
for item in "$@"; do
    program=${item%%:*}
    as=
    [ "$program" = "$item" ] || as=${item#*:}
    name=$(basename "$program")${as:+-as-$as}
    log=$build/logs/$name.log
    begun=$(date +%s%N)
    run() { AS=$as timeout -k 10 "${TEST_TIMEOUT:-400}" ${UNDER:-} "$program" >"$log" 2>&1 </dev/null; }
    run
    status=$?
    if [ $status != 0 ] && [ $status != 77 ] && [ -n "${RETRY:-}" ]; then
        echo "FLAKY? $name failed (status $status):"
        grep -v ': Passed$' "$log" | tail -20
        sleep 2
        run
        status=$?
    fi
    took=$((($(date +%s%N) - begun) / 1000000))
    case $status in
    0) passed=$((passed + 1)) word=PASS ;;
    77) skipped=$((skipped + 1)) word=SKIP ;;
    *) failed=$((failed + 1)) word=FAIL ;;
    esac
    printf '%s %6d ms  %s%s\n' $word $took "$name" "$([ $word = SKIP ] && tail -1 "$log" | sed 's/^/: /')"
    [ $word != FAIL ] || { echo "--- $log (status $status)"; grep -v ': Passed$' "$log" | tail -40; echo "---"; }
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && { [ -z "${NO_SKIP:-}" ] || [ $skipped = 0 ]; }
