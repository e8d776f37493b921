# damage.sh: bits are flipped, bytes added, cut or swapped in the files of a save: never is it read as if it were whole (damage.py)
if ! command -v python3 >/dev/null; then
    echo "skip damaged checkpoints: no python3"
else
    if [ -n "$MGPU_FULL" ]; then cases=10000; else cases=80; fi
    python3 "$root/tests/faults/damage.py" $cases >damage.out 2>&1 || wrong=$(tail -n 3 damage.out | tr '\n' ' ')
    group "damaged checkpoints"
fi
