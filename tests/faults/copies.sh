# copies.sh: a folder that was copied, whatever became of its links, is read, and a run goes on in it
./m --save w --overwrite --stop-after 4 --threads 1 >out 2>&1
copied() { # COMMAND: makes c of w
    local why
    rm -rf c
    eval "$1" || { echo "$(tail -n 1 out)"; return; }
    ./m eval --save c >out 2>&1 || { echo "eval: $(said)"; return; }
    ./m --resume c --no-save --steps 1 >out 2>&1 || { echo "it is not read: $(said)"; return; }
    ./m --resume c --threads 1 >out 2>&1 || { echo "it does not go on: $(said)"; return; }
    [ -L c/current ] && [ -L c/weights.safetensors ] && same_as_whole c 1
}
for way in "cp -r w c" "cp -rL w c" "cp -r w c && find c -type l -delete" "mkdir c && cp -L w/*.safetensors w/run.json c && cp -r w/step-* c"; do
    why=$(copied "$way")
    cases=$((cases + 1))
    [ -z "$why" ] || wrong="$wrong [$way: $why]"
done
group "copied folders"
