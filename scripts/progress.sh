# Sourced by scripts/demo and scripts/setup.

# wait_with_progress PID LOG: waits for a process of this shell, and returns its exit code. Until
# then it shows the seconds and the last line of the log: in place on a terminal, else as a new line
# every 15 seconds. The log may appear later than the process: a missing one is an empty line, and must
# not end a caller that runs with `set -e` and `pipefail`.
wait_with_progress() {
  local pid=$1 log=$2 begun=$SECONDS shown=0 elapsed line
  while kill -0 "$pid" 2>/dev/null; do
    elapsed=$((SECONDS - begun))
    line=$({ tail -n 1 "$log" 2>/dev/null || true; } | tr -d '\r' | cut -c 1-"$((${COLUMNS:-80} - 10))")
    if [ -t 1 ]; then
      printf '\r\033[K\033[2m%5d s  %s\033[0m' "$elapsed" "$line"
    elif [ "$elapsed" -ge $((shown + ${PROGRESS_INTERVAL_S:-15})) ]; then
      printf '%5d s  %s\n' "$elapsed" "$line"
      shown=$elapsed
    fi
    sleep 0.2
  done
  if [ -t 1 ]; then printf '\r\033[K'; fi
  wait "$pid"
}
