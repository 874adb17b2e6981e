#!/bin/sh
# Typing into a running command: a terminal of 30 x 100, input, ^C, the end. Needs curl and jq.
#   GATEWAY_URL=http://127.0.0.1:8080 GATEWAY_TOKEN=... examples/talk.sh
set -eu
api() { # METHOD PATH [JSON]
    curl -sS --fail-with-body -X "$1" "$GATEWAY_URL/api$2" -H "Authorization: Bearer $GATEWAY_TOKEN" ${3:+-H 'Content-Type: application/json' -d "$3"}
}
ws=$(api POST /workspaces '{"name": "talk"}' | jq -r .workspace_id)
trap 'api DELETE "/workspaces/$ws" >/dev/null' EXIT
ex=$(api POST "/workspaces/$ws/realtime-execs" '{"command": "bash --norc -i", "pty": true, "rows": 30, "cols": 100}' | jq -r .exec_id)
type() { api POST "/workspaces/$ws/realtime-execs/$ex/input" "$(jq -cn --arg data "$1" '{data: $data}')" >/dev/null; }
type 'stty size; sleep 1000
'
sleep 1
type "$(printf '\003')"
type 'echo still here; exit 4
'
for _ in 1 2 3 4 5 6 7 8 9 10; do
    state=$(api GET "/workspaces/$ws/realtime-execs/$ex" | jq -r .state)
    [ "$state" = running ] || break
    sleep 0.3
done
api GET "/workspaces/$ws/realtime-execs/$ex/events" | jq -rj '.events[] | if .type == "stdout" then .data elif .type == "exit" then "ended with \(.returncode)\n" else "" end'
