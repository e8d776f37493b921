# scale.sh: how much of a test is done. MGPU_SCALE is a percentage: 100 in ./check --full, else a few; MGPU_SCALE=20 tests/run NAME does more
# than ./check. A test that has more steps, samples, cases or seeds in the long run asks `scaled` for their number, and gives lists to `share`.
export MGPU_SCALE=${MGPU_SCALE:-1}
scaled() { # WHOLE LEAST: that percentage of WHOLE, or LEAST, the fewest with which the test still finds what it is for
    local number=$(($1 * MGPU_SCALE / 100))
    echo $((number > $2 ? number : $2))
}
share() { # LEAST: that percentage of the lines of the input, evenly spaced, or LEAST of them
    awk -v percent="$MGPU_SCALE" -v least="$1" '{ line[NR] = $0 }
        END { n = int(NR * percent / 100); n = n < least ? least : n; for (i = 0; i < NR; i++) if (i == 0 || n >= NR || int(i * n / NR) != int((i - 1) * n / NR)) print line[i + 1] }'
}
export -f scaled share
