# Runs a command until it ends or until our standard input closes, which happens when the program
# that started us ends in whatever way: then the command is killed.
exec 3<&0 </dev/null
"$@" 3<&- &
child=$!
{ read -r _ <&3; kill -KILL "$child"; } &
watcher=$!
exec 3<&-
wait "$child"
status=$?
kill "$watcher"
exit "$status"
