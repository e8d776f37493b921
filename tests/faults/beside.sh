# beside.sh: the run goes on while a save is written, which holds what the variables were at its step; how long the run waited is said
rm -rf w
faults "slow 100" --save w --steps 6 --set save=4steps --set keep=9 --no-eval --log log
status=$?
cases=1
order=$(sed -n 's/.*"event":"\(step\|checkpoint\)","step":\([0-9]*\),.*/\1\2/p' log | tr '\n' ' ')
[ $status = 0 ] && [ "$order" = "step1 step2 step3 step4 step5 step6 checkpoint4 checkpoint6 " ] && grep -q "^1 save beside the run, which waited 0\.[0-9]* s for it, [0-9.]* % of its time" out &&
    grep -q '"event":"checkpoint","step":4,.*"write_s":[0-9.e-]*,"stall_s":[0-9.e-]*,' log || wrong="status $status: $order: $(said)"
./m --save four --steps 4 --no-eval --threads 1 >out 2>&1
for file in weights optimizer average; do cmp -s w/step-4/$file.safetensors four/$file.safetensors || wrong="$wrong [$file of step 4 differs]"; done
group "saves beside the run"
