# shellcheck shell=bash disable=SC2154  # dir and me are set by the script that sources this
# Processes that belong to a folder: started once, known for certain, ended together. For cluster.sh and airflow.sh,
# which set `dir`, the folder, and `me`, the name that messages begin with.

say() { printf '%s: %s\n' "$me" "$*"; }

die() {
    printf '%s: %s\n' "$me" "$*" >&2
    exit 1
}

# A process number is used again after a while. Together with the time the process began, it is not.
start_time() {
    local stat
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
    # The name, in parentheses, may hold blanks; the state is the first field after it and the start the twentieth.
    read -r -a stat <<<"${stat##*) }"
    [ "${stat[0]}" != Z ] && printf '%s' "${stat[19]}"
}

pid_of() { cut -d' ' -f1 "$dir/run/$1.process" 2>/dev/null; }

alive() {
    local pid began
    read -r pid began 2>/dev/null <"$dir/run/$1.process" && [ "$(start_time "$pid")" = "$began" ]
}

# start NAME COMMAND...: in the background, in a session of its own, unless it runs already.
start() {
    local name=$1 pid
    shift
    alive "$name" && return 0
    setsid "$@" >>"$dir/log/$name.out" 2>&1 </dev/null 9>&- &
    pid=$!
    echo "$pid $(start_time $pid)" >"$dir/run/$name.process"
}

descendants() {
    local child
    for child in $(pgrep -P "$1"); do
        descendants "$child"
        printf '%s ' "$child"
    done
}

# stop NAME [SECONDS]: ask, wait, insist; then the children it left, and what else is in its session.
stop() {
    local pid left tenths=$((${2:-10} * 10))
    pid=$(pid_of "$1") || return 0
    if alive "$1"; then
        left=$(descendants "$pid")
        kill -TERM "$pid" 2>/dev/null || true
        while alive "$1" && [ $((tenths--)) -gt 0 ]; do sleep 0.1; done
        # shellcheck disable=SC2046,SC2086  # one word per process
        kill -KILL $(alive "$1" && echo "$pid") $left $(pgrep -s "$pid") 2>/dev/null || true
    fi
    rm -f "$dir/run/$1.process"
}

# crash NAME...: SIGKILL, and to all that they have started as well, as if their machine were lost.
crash() {
    local name pid
    for name in "$@"; do
        alive "$name" || die "no $name runs in $dir"
        pid=$(pid_of "$name")
        # shellcheck disable=SC2046  # one word per process
        kill -KILL "$pid" $(descendants "$pid") $(pgrep -s "$pid") 2>/dev/null || true
        while alive "$name"; do sleep 0.1; done
        say "$name is lost"
    done
}

# wait_for NAME SECONDS COMMAND...: until the command succeeds; the last words of both if it does not.
wait_for() {
    local name=$1 deadline=$((SECONDS + $2))
    shift 2
    until "$@" >"$dir/log/wait.out" 2>&1; do
        if ! alive "$name" || [ $SECONDS -ge $deadline ]; then
            tail -n 15 "$dir/log/$name.out" "$dir/log/wait.out" >&2
            die "$name does not answer as it should ($*); its log is $dir/log/$name.out"
        fi
        sleep 0.2
    done
}

port_is_free() { ! ss -Hltn "sport = :$1" | grep -q .; }

# choose_ports COUNT: the first of COUNT free neighbours below the kernel's range for outgoing connections.
choose_ports() {
    local attempt base offset
    for attempt in $(seq 200); do
        base=$((21000 + (RANDOM % 1100) * 8))
        for ((offset = 0; offset < $1; offset++)); do
            port_is_free $((base + offset)) || continue 2
        done
        echo $base
        return 0
    done
    die "found no $1 free neighbouring ports between 21000 and 29800 in $attempt attempts"
}
