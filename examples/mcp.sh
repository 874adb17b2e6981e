#!/bin/sh
# MCP by hand: what a client sends, in the revision of 2025-06-18. Needs curl and jq.
#   GATEWAY_URL=http://127.0.0.1:8080 GATEWAY_TOKEN=... examples/mcp.sh
set -eu
rpc() { # METHOD PARAMS
    curl -sS --fail-with-body "$GATEWAY_URL/mcp" -H "Authorization: Bearer $GATEWAY_TOKEN" -H 'Content-Type: application/json' \
        -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2025-06-18' \
        -d "$(jq -cn --arg method "$1" --argjson params "$2" '{jsonrpc: "2.0", id: 1, method: $method, params: $params}')"
}
tool() { # NAME ARGUMENTS
    rpc tools/call "$(jq -cn --arg name "$1" --argjson arguments "$2" '{name: $name, arguments: $arguments}')" | jq -c .result.structuredContent
}
rpc initialize '{"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}' | jq -r .result.serverInfo.name
rpc tools/list '{}' | jq -r '.result.tools[].name'
ws=$(tool workspace_create '{}' | jq -r .workspace_id)
tool workspace_exec "{\"workspace_id\": \"$ws\", \"command\": \"uname -s; id -un\"}" | jq -r .stdout
tool workspace_terminate "{\"workspace_id\": \"$ws\"}" | jq -r .terminated
