# power.sh: the power fails at any moment of two saves, and the file system has kept any of what was not synced, in any order: what had
# been switched to and synced can be read, and each step-N is whole or absent (power.py)
if ! command -v python3 >/dev/null; then
    echo "skip power cuts: no python3"
else
    rm -rf w keep states
    mkdir keep
    CALLS_LOG=trace CALLS_KEEP=$PWD/keep faults trace --save w --stop-after 4
    python3 "$root/tests/faults/power.py" trace keep ${MGPU_FULL:+--all} >states.out 2>&1
    status=$?
    cases=$(sed -n 's/^\([0-9]*\) states.*/\1/p' states.out)
    [ $status = 0 ] || wrong=$(tail -n 3 states.out | tr '\n' ' ')
    echo "# $(head -n 1 states.out)"
    group "power cuts"
fi
