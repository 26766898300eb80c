#!/usr/bin/env bash
# The first process of one host of tests/integration/containers.py, which has made its namespaces: mounts what the plan
# says below ROOT, waits for its network, and starts the command there without any privilege.
#
#   container.sh ROOT PLAN HOSTNAME UID GID COMMAND...
#
# A line of the plan: `bind SOURCE TARGET OPTIONS`, `tmpfs - TARGET OPTIONS`, `link SOURCE TARGET -`, in their order.
set -euo pipefail
root=$1 plan=$2 user=$4 group=$5
hostname "$3"
shift 5

mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs "$root"
while read -r kind source target options; do
    case $kind in
        link) ln -s "$source" "$root$target" ;;
        tmpfs)
            mkdir -p "$root$target"
            mount -t tmpfs -o "$options" tmpfs "$root$target"
            ;;
        bind)
            if [ -d "$source" ]; then
                mkdir -p "$root$target"
            elif [ ! -e "$root$target" ]; then
                mkdir -p "$(dirname "$root$target")"
                : >"$root$target"
            fi
            mount --bind "$source" "$root$target"
            mount -o "remount,bind,$options" "$root$target"
            ;;
    esac
done <"$plan"
mkdir -p "$root/proc"
mount -t proc proc "$root/proc"
until ip link show eth0 up 2>/dev/null | grep -q eth0; do sleep 0.05; done

# As an engine's init does: passes on what ends it, and collects processes whose parents have ended. It stays root, for
# who changes that outlives its parent's death.
# shellcheck disable=SC2016  # expanded by the inner shell
exec chroot "$root" bash -c '
    cd "$HOME"
    setpriv --reuid="$1" --regid="$2" --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "${@:3}" &
    process=$! code=0
    trap "kill -TERM $process" TERM
    wait "$process" || code=$?
    while kill -0 "$process" 2>/dev/null; do wait "$process" || code=$?; done
    exit "$code"' bash "$user" "$group" "$@"
