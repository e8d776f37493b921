# fails.sh: a call that changes a file fails: the run says so, saves when the next is due, and ends with the same bits, or with status
# 3 where it was the last save; what was saved before can be read
rm -rf w
CALLS_LOG=calls faults count --save w
calls=$(cat calls)
failed() { # CALL ERRNO HOW
    local why status
    rm -rf w
    faults "${3-fail} $1 $2" --save w
    status=$?
    why=$(kept_are_whole w) || { echo "$why"; return; }
    if [ $status = 0 ]; then
        same_bits w 1
    elif [ $status != 3 ]; then
        echo "status $status: $(said)"
    elif [ -L w/current ]; then
        ./m --resume w --no-save >out 2>&1 || { echo "after it: $(said)"; return; }
        ./m --resume w --threads 1 >out 2>&1 || { echo "it does not go on: $(said)"; return; }
        same_bits w 1
    fi
}
if [ -n "$MGPU_FULL" ]; then every=1; else every=24; fi
for ((call = 1 + every / 2; call <= calls; call += every)); do
    for number in 5 28; do # EIO, ENOSPC
        why=$(failed $call $number)
        cases=$((cases + 1))
        [ -z "$why" ] || wrong="$wrong [call $call of $calls, errno $number: $why]"
    done
done
group "calls that change files fail"

# a rename says EIO, but is done
for ((call = 1; call <= 20; call++)); do
    why=$(failed $call 5 late)
    cases=$((cases + 1))
    [ -z "$why" ] || wrong="$wrong [rename $call: $why]"
done
group "renames that are done and say that they failed"

# a file system without links: DIR/NAME are files, which change after the switch
rm -rf w
for run in "--save w --stop-after 4" "--resume w"; do
    faults nolinks $run || wrong="$wrong [$run: $(said)]"
done
why=$(same_bits w 1) && why=$(kept_are_whole w) && [ -z "$(find w -type l)" ] && ./m eval --save w >out 2>&1 && ./m --resume w --no-save >out 2>&1 ||
    wrong="$wrong [$why $(find w -type l) $(said)]"
cases=$((cases + 2))
group "no links"
