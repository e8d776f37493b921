# pairs.sh: two runs in one folder: one is told who is there, and what is saved is one run's
rm -rf w
./m --save w --steps 100000000 --set save=none --set validate=none >first 2>&1 &
child=$!
for _ in $(seq 500); do grep -qs " on host " w/lock && break; sleep 0.02; done
./m --save w --overwrite >out 2>&1
status=$?
cases=$((cases + 1))
[ $status = 1 ] && grep -q "error: w is in use: process $child on host $(hostname) saves its run there; wait for its end, or name another folder with --save$" out ||
    wrong="$wrong [status $status: $(said)]"
kill -INT $child
wait $child
pair() {
    local first second ended=0 told=0 seed
    rm -rf w
    ./m --save w --seed 1 >first 2>&1 &
    first=$!
    ./m --save w --seed 2 >second 2>&1 &
    second=$!
    for seed in $first $second; do wait "$seed" && ended=$((ended + 1)); done
    for seed in first second; do grep -q "error: w is in use: \|error: w holds a run" $seed && told=$((told + 1)); done
    [ $ended = 1 ] && [ $told = 1 ] || { echo "$ended ended, $told were told: $(tail -n 1 first) $(tail -n 1 second)"; return; }
    if grep -q 'saved in' first; then seed=1; else seed=2; fi
    cmp -s w/weights.safetensors seed.$seed/weights.safetensors && cmp -s w/optimizer.safetensors seed.$seed/optimizer.safetensors &&
        cmp -s w/best.safetensors seed.$seed/best.safetensors || echo "not the files of seed $seed"
}
for seed in 1 2; do ./m --save seed.$seed --seed $seed >out 2>&1; done
if [ -n "$MGPU_FULL" ]; then pairs=100; else pairs=2; fi
for ((i = 0; i < pairs; i++)); do
    why=$(pair)
    cases=$((cases + 1))
    [ -z "$why" ] || wrong="$wrong [$why]"
done
group "two runs in one folder"

# a finished run's folder
before=$(cat w/current/manifest.json)
./m --save w >out 2>&1
status=$?
[ $status = 1 ] && grep -q "error: w holds a run, at step 8; --resume w goes on with it, --overwrite replaces it" out && [ "$before" = "$(cat w/current/manifest.json)" ] ||
    wrong="$wrong [a new run: status $status: $(said)]"
./m --save w --overwrite --seed 3 --set best=none --steps 1 --set validate=none >out 2>&1
./m --save w --overwrite --seed 3 --steps 1 --no-eval >out 2>&1 && [ ! -e w/best.safetensors ] && [ "$(echo w/step-*)" = w/step-1 ] ||
    wrong="$wrong [--overwrite leaves something of the other run: $(ls w | tr '\n' ' '), $(said)]"
cases=$((cases + 2))
group "a finished run's folder"
