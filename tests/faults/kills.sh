# kills.sh: a run that is killed at any call that changes a file goes on as if it had not been, from a whole save, with each
# step-N whole or absent
mkdir -p w && rm -rf w
CALLS_LOG=calls faults count --save w
calls=$(cat calls)
echo "# $calls calls that change files"
killed() { # CALL DEVICES OPTIONS...
    local why
    rm -rf w
    faults "kill $1" --devices "$2" --save w "${@:3}"
    [ $? = 137 ] || { echo "it was not killed: $(said)"; return; }
    why=$(kept_are_whole w) || { echo "$why"; return; }
    if ./m --resume w --no-save --steps 1 >out 2>&1; then
        ./m eval --save w >out 2>&1 || { echo "eval: $(said)"; return; }
        ./m --resume w --devices "$2" --threads 1 >out 2>&1 || { echo "it does not go on: $(said)"; return; }
    elif [ -e w/run.json ]; then
        echo "it cannot be read: $(said)"
        return
    else # nothing was saved yet
        ./m --save w --devices "$2" --threads 1 >out 2>&1 || { echo "it neither goes on nor begins again: $(said)"; return; }
    fi
    if [ $# = 2 ]; then same_as_whole w "$2"; else same_bits w "$2"; fi
}
if [ -n "$MGPU_FULL" ]; then kills=1000; else kills=20; fi
for ((i = 0; i < kills; i++)); do
    devices=$((i % 3 + 1))
    if [ $kills = 1000 ]; then call=$((i / 3 % calls + 1)); else call=$((i * calls / kills + 1)); fi
    why=$(killed $call $devices)
    cases=$((cases + 1))
    [ -z "$why" ] || wrong="$wrong [call $call of $calls, $devices devices: $why]"
done
for call in 8 33 35 37 50; do # the best model is due before the first checkpoint is
    why=$(killed $call 1 --set save=none)
    cases=$((cases + 1))
    [ -z "$why" ] || wrong="$wrong [call $call, no checkpoint due: $why]"
done
group "killed at calls that change files"
