# room.sh: there is no room for a time: the saves then are said, and tried again when they are due; the run ends with status 3 only if
# there is none at its end, or after as many failures as --failed-saves says
rm -rf w
CALLS_LOG=calls faults count --save w
calls=$(cat calls)
for begin in 12 $((calls / 3)) $((calls / 2 + 5)); do # in the midst of a save that is not the last
    rm -rf w
    faults "full $begin $((begin + 2))" --save w
    status=$?
    cases=$((cases + 1))
    [ $status = 0 ] && grep -q "warning: step [0-9]* could not be saved: .*: No space left on device; .*the next save is tried when it is due" out &&
        why=$(same_bits w 1) || wrong="$wrong [for a time: status $status, $why $(said)]"
done
rm -rf w
faults "full $((calls / 2)) 99999" --save w
[ $? = 3 ] && grep -q "error: step 8 could not be saved: .*; the checkpoint in w is that of step [246]$" out && ./m --resume w --no-save >out 2>&1 &&
    why=$(kept_are_whole w) || wrong="$wrong [to the end: $why $(said)]"
rm -rf w
faults "full $((calls / 2)) 99999" --save w --failed-saves 2 --steps 80
[ $? = 3 ] && grep -q "error: step [0-9]* could not be saved: .*; --failed-saves 2$" out && [ "$(grep -c warning: out)" = 1 ] && ./m --resume w --no-save >out 2>&1 ||
    wrong="$wrong [--failed-saves 2: $(said)]"
./m --save whole.often --threads 1 --set validate=1steps >out 2>&1
for begin in 12 24 32 36 40 44 64 72 76 80 84; do # from some call on: what is whole is found and said, or there is nothing
    rm -rf w
    faults "full $begin 99999" --save w --set validate=1steps
    [ $? = 3 ] || wrong="$wrong [no room from call $begin on: $(said)]"
    run="--save w --set validate=1steps"
    if [ -L w/current ] || compgen -G "w/step-*" >out; then run="--resume w"; fi
    ./m $run --threads 1 >out 2>&1 || wrong="$wrong [no room from call $begin on, afterwards, $run: $(said)]"
    for file in $files; do cmp -s w/$file whole.often/$file || wrong="$wrong [no room from call $begin on, afterwards, $run: $file differs]"; done
    cases=$((cases + 1))
done
rm -rf w # the best model has no room, and none is better afterwards
faults "full 3 4" --save w --steps 4 --set save=none --set lr=0
[ $? = 3 ] && grep -q "error: the best model, of step 2, could not be saved: .*No space left on device" out && ./m --resume w --no-save >out 2>&1 ||
    wrong="$wrong [the best model: $(said)]"
cases=$((cases + 3))
group "no room"
