# readers.sh: what reads beside a run that trains and saves after every step never fails, and changes nothing
rm -rf w
./m --save w --steps 100000000 --set save=1steps --set validate=3steps >first 2>&1 &
child=$!
for _ in $(seq 500); do [ -e w/best.safetensors ] && [ -e w/run.json ] && break; sleep 0.02; done
if [ -n "$MGPU_FULL" ]; then rounds=167; else rounds=3; fi
for ((i = 0; i < rounds; i++)); do
    for reader in "eval --save w" "eval --save w --weights last" "--resume w --no-save --steps 1" "predict x.npy -o y.npy --init w/average.safetensors" "predict x.npy -o y.npy --save w" "info"; do
        ./m $reader >out 2>&1
        status=$?
        cases=$((cases + 1))
        [ $status = 0 ] && ! grep -q 'warning: ' out || wrong="$wrong [$reader: status $status, $(said)]"
    done
done
kill -0 $child 2>/dev/null || wrong="$wrong [the run ended: $(tail -n 1 first)]"
kill -INT $child
wait $child
[ $? = 130 ] || wrong="$wrong [the run: $(tail -n 1 first)]"
./m --resume w --no-save --steps 1 >out 2>&1 || wrong="$wrong [after it: $(said)]"
./m --resume w --no-save --steps 1 >out 2>&1
state() { find -L "$1" -type f ! -name lock -exec sha256sum {} + | sort; find "$1" | sort; }
state w >before
for reader in "eval --save w" "--resume w --no-save --steps 1" "info" "predict x.npy -o y.npy --save w"; do ./m $reader >out 2>&1 || wrong="$wrong [$reader: $(said)]"; done
state w >after
cmp -s before after || wrong="$wrong [readers have changed the folder: $(diff before after | head -n 3 | tr '\n' ' ')]"
group "readers beside a run"
