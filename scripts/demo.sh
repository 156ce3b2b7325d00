#!/usr/bin/env bash
# Ingest the example trace into a new warehouse, answer three questions and say what to try next.
#
#   scripts/demo.sh             uses the `kerneldb` on PATH
#   KERNELDB=... scripts/demo.sh   uses another one (`make demo` does)
set -euo pipefail
cd "$(dirname "$0")/.."

kerneldb=${KERNELDB:-kerneldb}
folder=$(mktemp -d "${TMPDIR:-/tmp}/kerneldb-demo.XXXXXX")
db=$folder/demo.duckdb

run() {
  printf '\n$ kerneldb'
  local word
  for word in "$@"; do
    case $word in
      *[[:space:]]*) printf ' "%s"' "$word" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
  printf '\n'
  "$kerneldb" "$@"
}

ask() { printf '\n%s\n' "── $* ──"; }

run --db "$db" ingest examples/*.json.gz

ask '1. Where does the GPU time go?'
run --db "$db" top --by category --limit 8

ask '2. How do prefill and decode differ?'
run --db "$db" query "SELECT phase, category, count(*) AS launches, sum(duration_ns) AS total_ns
FROM kernels WHERE phase IN ('prefill', 'decode')
GROUP BY ALL ORDER BY phase DESC, total_ns DESC LIMIT 10"

ask '3. What is the most expensive kernel, and what does it compute?'
signature=$("$kerneldb" --db "$db" query --csv --no-header \
  "SELECT signature_id FROM kernels GROUP BY ALL ORDER BY sum(duration_ns) DESC LIMIT 1")
run --db "$db" show "$signature"

cat <<EOT

Try next:
  export PATH="$(cd "$(dirname "$(command -v "$kerneldb")")" && pwd):\$PATH" KERNELDB_DB=$db
  kerneldb top --by op --where "phase = 'decode'"   # one condition text for every command
  kerneldb db schema                                # all tables and columns, with units
  kerneldb query "FROM kernels LIMIT 5"             # or open the file with any DuckDB client
  kerneldb ingest YOUR_TRACE.json                   # your own trace, plain, .gz or .zip
EOT
