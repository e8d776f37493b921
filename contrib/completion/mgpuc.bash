# bash completion for mgpuc and the programs it makes; for a program: complete -F _mgpu_program ./train
_mgpu_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_mgpu_files() { # GLOB: such files, and folders
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -X "!$1" -- "$cur"; compgen -d -- "$cur")
}

_mgpuc() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    COMPREPLY=()
    case $before in
    --emit) _mgpu_words "ast graph resolve simplify graphdot loops grad update dist precision shard layout phases fused dot split recompute schedule verify memory trace kernels launches images"; return ;;
    --from) _mgpu_words "graph resolve simplify loops grad update dist precision shard layout phases"; return ;;
    -o | --output) _mgpu_files '*'; return ;;
    --machine) _mgpu_words "$(mgpuc machines 2>/dev/null | sed -n 's/^\([a-z0-9-]*\) .*/\1/p')"; return ;;
    --measured) _mgpu_files '*.json'; return ;;
    --schedule) _mgpu_files '*.sched'; return ;;
    --data) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    --plan) _mgpu_words "auto infer-replicated bcast-slice keras cpu-slice tower-avg staged-input ps-cpu ps-gpu replicated-copy replicated-nccl independent staged-vars ring-fused one-bit weights="; return ;;
    --shard) _mgpu_words "none optimizer gradients weights"; return ;;
    --steps | --epochs | --metric | --batch | --devices | --arch | --set | --model | --memory | --split | --bucket) return ;;
    esac
    case $command in
    fmt) if [[ $cur == -* ]]; then _mgpu_words "--check --help"; else _mgpu_files '*.net'; fi; return ;;
    doc)
        if [[ $cur == -* ]]; then _mgpu_words "--markdown --help"
        elif [ "$COMP_CWORD" = 2 ]; then _mgpu_words "$(mgpuc doc 2>/dev/null | sed -n 's/^    //p')"
        else _mgpu_files '*.net'; fi
        return ;;
    import)
        if [[ $cur == -* ]]; then _mgpu_words "--shape --batch --no-batch --loss --samples --overwrite -o --output --help"; else _mgpu_files '*.onnx'; fi
        return ;;
    verify | diff) [[ $cur == -* ]] || { _mgpu_files '*.sched'; return; } ;;
    esac
    if [[ $cur == -W* ]]; then
        _mgpu_words "-Wno-loss-shapes -Wno-double-softmax -Wno-log-softmax -Wno-untrained -Wno-unused-weights -Wno-shard-statistics -Wno-torch-arguments -Wno-channel-order -Wno-unscaled-bytes -Wno-missing-file -Wno-memory -Wno-idle-devices -Wno-uneven-batch -Wno-batch-statistics -Wno-slow-input -Wno-learning-rate -Wno-replaced-schedule"
    elif [[ $cur == -* ]]; then
        _mgpu_words "-o --output --devices --machine --arch --set --mpi --shared --tune -S -v --emit --model --from --json --init --rules --batch --weak --strong --fit --compare --steps --epochs --metric --data --csv --svg --measured --page --full --timeline --op --layer --at --phase --device -Wno- --no-fuse --no-reuse --bodies --memory --split --plan --shard --schedule --bucket -h --help --version"
    elif [[ " ${COMP_WORDS[*]} " == *" --from "* ]]; then
        _mgpu_files '*.graph'
    else
        _mgpu_files '*.net'
        [ "$COMP_CWORD" != 1 ] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "check plan bench schedule diff verify fmt doc lsp devices machines probe report import plot compare selftest" -- "$cur")
    fi
}
complete -F _mgpuc mgpuc

_mgpu_program() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    case $before in
    --data | --resume | --save | --tensorboard) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    --init | --rules) _mgpu_files '*.safetensors'; return ;;
    --weights) _mgpu_words "best last"; return ;;
    --log | --measure | --prompts | --trace | --output | -o) _mgpu_files '*'; return ;;
    --set)
        compopt -o nospace 2>/dev/null
        _mgpu_words "$("${COMP_WORDS[0]}" info 2>/dev/null | sed -n '/^settings at run time/,/^$/{s/^  \([a-z_.]*\) .*/\1=/p;}') epochs= steps= seed="
        return ;;
    --epochs | --steps | --stop-after | --stall | --histograms | --trace-steps | --op | --layer | --at | --phase | --device | --failed-saves | --devices | --threads | --seed | --only | --samples | --length | --temperature | --top-k | --top-p | --stop | --warmup | --batch) return ;;
    esac
    if [[ $cur == -* ]]; then
        _mgpu_words "--data --epochs --steps --stop-after --stall --devices --threads --seed --set --init --rules --as --config --vocabulary --resume --save --overwrite --failed-saves --weights --no-save --no-shuffle --no-eval --log --tensorboard --histograms --trace --trace-steps -o --output --only --samples --length --temperature --top-k --top-p --stop --prompts --ignore-eos --warmup --json --profile --measure --batch --weak --strong --tune --page --full --timeline --op --layer --at --phase --device --version --help"
    elif [ "$COMP_CWORD" = 1 ]; then
        _mgpu_words "train eval predict generate export bench check-gradients watch report compare info schedule"
    else
        _mgpu_files '*'
    fi
}
