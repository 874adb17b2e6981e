#!/bin/sh
# Runs fuzzers, some at a time: run.sh BUILD SECONDS JOBS NAME... What they keep goes to BUILD/found/NAME, what ends them to
# BUILD/crash-NAME-*, what they say to BUILD/logs/NAME.log. One line for each; fails where one found something.
set -u
build=$1 seconds=$2 jobs=$3
shift 3
mkdir -p "$build/logs"
one() {
    name=$1 log=$build/logs/$1.log dict=tests/fuzz/$1.dict
    mkdir -p "$build/found/$name" "tests/fuzz/corpus/$name"
    [ -f "$dict" ] || dict=
    "$build/tests/fuzz/fuzz_$name" ${dict:+-dict="$dict"} -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
        -print_final_stats=1 -verbosity=1 -artifact_prefix="$build/crash-$name-" "$build/found/$name" "tests/fuzz/corpus/$name" \
        >"$log" 2>&1
    status=$?
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ $status = 0 ]; then
        echo "PASS $name: ${count:-?} executions in $seconds s"
    else
        echo "FAIL $name (status $status), $log:"
        grep -aE 'ERROR|SUMMARY|runtime error|Test unit written' "$log" | head -5
        echo "$name" >>"$build/logs/failed"
    fi
}
: >"$build/logs/failed"
running=0
for name in "$@"; do
    one "$name" &
    running=$((running + 1))
    [ $running -lt "$jobs" ] || { wait; running=0; }
done
wait
[ ! -s "$build/logs/failed" ]
