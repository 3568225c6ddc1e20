# Removes all that a cluster leaves in the kernel and in its directory $1. Processes that belong to
# its nodes are killed; the control plane's end with the program that started them.
for namespace in $(ip netns list | cut -d ' ' -f 1 | grep '^kutter-'); do
    for process in $(ip netns pids "$namespace"); do
        kill -KILL "$process" 2>/dev/null
    done
    ip netns delete "$namespace"
done
for link in $(ip -brief link show | cut -d ' ' -f 1 | cut -d @ -f 1 | grep '^kutter'); do
    ip link delete "$link" 2>/dev/null
done
# Control groups and files go once the last process is gone.
attempts=0
until
    find /sys/fs/cgroup -depth -type d -path '*/kutter*' -exec rmdir {} + 2>/dev/null
    [ -z "$(find /sys/fs/cgroup -type d -name kutter)" ] && rm -rf -- "$1" 2>/dev/null
do
    attempts=$((attempts + 1))
    [ "$attempts" -lt 600 ] || exit 1
    sleep 0.1
done
