# links.sh: a folder that holds links, or files of others: no link is followed, and only what a run has written is removed
victims() { # what must stay: folders that look like a save to who follows links
    rm -rf w victim
    mkdir -p victim/1 victim/notes
    for file in weights.safetensors manifest.json thesis.txt; do echo "$file" | tee victim/$file >victim/1/$file; done
    echo 1 >victim/notes/thesis.txt
    find victim -type f -exec sha256sum {} + | sort >victim.before
}
unharmed() { find victim -type f -exec sha256sum {} + | sort | cmp -s - victim.before || echo "what a link leads to has changed: $(find victim -type f | tr '\n' ' ')"; }
hostile() { # RUN CHANGE CHECK: the folder of a run at step 2 is changed; then another run, and a check of its status
    victims
    ./m --save w --stop-after 2 --threads 1 >out 2>&1 || echo "it does not run: $(said)"
    eval "$2"
    ./m $1 --threads 1 >out 2>&1
    status=$?
    eval "$3" || echo "status $status: $(said)"
    unharmed
}
for run in "--resume w" "--save w --overwrite"; do
    why=$(hostile "$run" "ln -s ../../victim w/saves/100; ln -s ../../victim w/saves/gone-100; ln -s ../../victim w/saves/9.gone; ln -s ../victim w/step-1; ln -s ../victim w/step-4" '[ $status = 0 ]')
    [ -z "$why" ] || wrong="$wrong [links in the folder, $run: $why]"
    why=$(hostile "$run" "mv w/saves/* victim; rmdir w/saves; ln -s ../victim w/saves; find victim -type f -exec sha256sum {} + | sort >victim.before" \
        '[ $status = 1 ] && grep -q "error: w/saves is a link, or no folder that can be read: no save is made through it; rename it, or" out')
    [ -z "$why" ] || wrong="$wrong [saves is a link, $run: $why]"
    why=$(hostile "$run" "rm w/current; ln -s ../victim w/current" '[ $status = 0 ]')
    [ -z "$why" ] || wrong="$wrong [current leads elsewhere, $run: $why]"
    cases=$((cases + 3))
done
group "links in the folder of a run"

rm -rf w
mkdir -p w/saves/5 w/saves/notes w/step-4 w/step-1
for file in w/saves/thesis.txt w/saves/5/thesis.txt w/saves/notes/thesis.txt w/step-4/thesis.txt w/step-1/thesis.txt w/thesis.txt; do echo "$file" >$file; done
./m --save w --threads 1 >out 2>&1 && ./m --save w --overwrite --threads 1 >out 2>&1 || wrong="$wrong [$(said)]"
[ "$(find w -name thesis.txt | wc -l)" = 6 ] && [ -s w/step-1/thesis.txt ] && [ -n "$(echo w/step-4.before-*/thesis.txt)" ] && [ -s w/thesis.txt ] ||
    wrong="$wrong [files of others: $(find w -name thesis.txt | tr '\n' ' ')]"
[ "$(echo w/step-?)" = "w/step-1 w/step-6 w/step-8" ] || wrong="$wrong [steps: $(echo w/step-?)]"
rm -rf w
mkdir w
echo "a list of locks" >w/lock
./m --save w --threads 1 >out 2>&1
[ $? = 1 ] && grep -q "error: w/lock is a file of another kind, which no run has written; rename it, or name another folder with --save" out && [ "$(cat w/lock)" = "a list of locks" ] ||
    wrong="$wrong [a file named lock: $(said)]"
cases=$((cases + 3))
group "files of others in the folder of a run"
