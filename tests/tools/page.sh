# page.sh: runs the blocks of a page of docs, in their order: ```net NAME is a file, ```sh commands that must succeed, ```sh fails
# commands that must end with status 1 or 2 and a message. Who sources it may define `shorter` (COMMAND -> what is run) and `smaller`
# (stdin: a model -> what is compiled).
declare -F shorter >/dev/null || shorter() { echo "$1"; }
declare -F smaller >/dev/null || smaller() { cat; }
blocks() { # each block of the page $1 as a file: NUMBER.KIND, its first line the words behind the fence
    awk '/^```[a-z]/ { n++; file = sprintf("%03d.block", n); print substr($0, 4) >file; on = 1; next }
         /^```/ { on = 0; close(file); next }
         on { print >file }' "$1"
}
run_page() { # FILE: `count` is how many commands it has
    blocks "$1"
    count=0
    for block in *.block; do
        read -r kind name <"$block"
        tail -n +2 "$block" >text
        case "$kind $name" in
        "net "*) smaller <text >"$name" ;;
        "sh ") 
            while read -r line; do
                [ -n "$line" ] || continue
                if bash -c "$(shorter "$line")" >out 2>&1; then echo "ok ${line%% #*}"; else echo "not ok $line: $(tail -n 3 out | tr '\n' ' ')"; fi
                count=$((count + 1))
            done <text ;;
        "sh fails")
            while read -r line; do
                bash -c "$line" >out 2>&1
                status=$?
                if { [ $status = 1 ] || [ $status = 2 ]; } && grep -q "error: \|^mgpuc: " out; then echo "ok $line fails"; else echo "not ok $line fails: status $status, $(tail -n 3 out | tr '\n' ' ')"; fi
            done <text ;;
        esac
    done
}
