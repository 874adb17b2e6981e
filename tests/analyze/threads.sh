#!/bin/sh
# Runs test programs that were built with ThreadSanitizer: threads.sh BUILD PROGRAM... A race seen in any process, also in one whose errors
# nobody reads (a worker, a keeper), fails: each leaves its report in one folder.
set -u
reports=$(mktemp -d /var/tmp/wsf-races-XXXXXX)
chmod 1777 "$reports"
# The runtime of older compilers does not find its place where the kernel spreads addresses widely (vm.mmap_rnd_bits = 32).
UNDER=
! setarch -R true 2>/dev/null || UNDER='setarch -R'
export UNDER TSAN_OPTIONS="log_path=$reports/race:suppressions=$PWD/tests/analyze/tsan.supp:exitcode=66:second_deadlock_stack=1"
tests/run.sh "$@"
status=$?
for report in "$reports"/*; do
    [ -s "$report" ] || continue
    echo "--- $report"
    head -80 "$report"
    status=1
done
rm -rf "$reports"
exit $status
