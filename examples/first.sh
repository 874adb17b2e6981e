#!/bin/sh
# A workspace, a command, its output followed by cursor, the end. Needs curl and jq.
#   GATEWAY_URL=http://127.0.0.1:8080 GATEWAY_TOKEN=... examples/first.sh
set -eu
api() { # METHOD PATH [JSON]
    curl -sS --fail-with-body -X "$1" "$GATEWAY_URL/api$2" -H "Authorization: Bearer $GATEWAY_TOKEN" ${3:+-H 'Content-Type: application/json' -d "$3"}
}
ws=$(api POST /workspaces '{"name": "first"}' | jq -r .workspace_id)
trap 'api DELETE "/workspaces/$ws" >/dev/null' EXIT
ex=$(api POST "/workspaces/$ws/realtime-execs" '{"command": "for k in 1 2 3; do echo line $k; sleep 0.2; done"}' | jq -r .exec_id)
cursor=0 ended=
while [ -z "$ended" ]; do # the exit event is always the end; feed next_cursor back as cursor
    page=$(api GET "/workspaces/$ws/realtime-execs/$ex/events?cursor=$cursor&wait_seconds=20")
    printf '%s' "$page" | jq -rj '.events[] | select(.type == "stdout").data'
    cursor=$(printf '%s' "$page" | jq .next_cursor)
    ended=$(printf '%s' "$page" | jq -r '.events[] | select(.type == "exit") | "ended with \(.returncode)"')
done
echo "$ended"
