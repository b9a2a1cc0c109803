#!/usr/bin/env bash
# The steps of Dockerfile and compose.yaml without containers: an environment from the lock file, a server, two
# sites and a query, all below one empty folder on this machine.
#   deploy/try.sh FOLDER
# ENVIRONMENT=DIR takes an environment that is there already, instead of installing one.
set -euo pipefail

folder=${1:?usage: deploy/try.sh FOLDER}
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$folder"
[ -z "$(ls -A "$folder")" ] || { echo "$folder: not empty" >&2; exit 2; }
folder=$(cd "$folder" && pwd)
cd "$folder"

bin=${ENVIRONMENT:+$ENVIRONMENT/bin}
if [ -z "$bin" ]; then
  echo "== an environment from requirements/all.lock"
  "${PYTHON:-python3}" -m venv environment
  bin=$folder/environment/bin
  "$bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes \
    --requirement "$repository/requirements/all.lock"
  # From a copy, so that building leaves nothing behind in the repository.
  mkdir source
  cp -R "$repository/src" "$repository/pyproject.toml" "$repository/README.md" "$repository/LICENSE" source/
  "$bin/python" -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation ./source
fi

echo "== tables, keys, server and sites"
"$bin/python" "$repository/deploy/demo_tables.py" .
port=$("$bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$bin/python" -m onefold federate init federation --sites north south --host localhost --port "$port" --answer-anyone

started=()
stop() {
  code=$?
  for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
  wait || true
  exit "$code"
}
trap stop EXIT

"$bin/python" -m onefold federate server --folder federation/server --bind 127.0.0.1 > server.log 2>&1 &
started+=($!)
for site in north south; do
  "$bin/python" -m onefold federate site "$site.csv" --folder "federation/sites/$site" --label diagnosis \
    > "$site.log" 2>&1 &
  started+=($!)
done

echo "== a query"
"$bin/python" "$repository/deploy/demo_query.py" . || { tail -n 5 ./*.log >&2; exit 1; }
echo "== done"
