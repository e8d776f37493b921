" models of mgpuc
if exists('b:current_syntax')
  finish
endif
syntax case match
syntax keyword mgpuReserved and else for if in not or return then
syntax keyword mgpuConstant true false none
" words only where a statement begins, and no name that is assigned
syntax match mgpuStatement "\%(^\s*\|[{}]\s*\|\s\{2,}\)\zs\%(assert\|data\|import\|input\|layer\|loss\|metric\|model\|output\|param\|scan\|state\|train\|update\|weight\)\>\%(\s*[=,]\)\@!"
syntax match mgpuLayerName "\%(\<layer\s\+\|\<model\s\+\)\@<=\h\w*"
syntax keyword mgpuType f32 bf16 f16 f64 i32 i64 u8 u16 i8 i16 u32 bool class
syntax keyword mgpuKnown training step epoch progress pi inf
syntax match mgpuNumber "\<\d\%(_\?\d\)*\%(\.\d\%(_\?\d\)*\)\?\%([eE][+-]\?\d\+\)\?\>"
syntax match mgpuQuantity "\<\d\%(_\?\d\)*\%(\.\d\%(_\?\d\)*\)\?\%([eE][+-]\?\d\+\)\?\%(steps\|step\|epochs\|epoch\|samples\|sample\|s\|min\|h\|B\|kB\|KB\|MB\|GB\|TB\|PB\|KiB\|MiB\|GiB\|TiB\|PiB\)\>"
syntax match mgpuCall "\<\h\w*\ze("
syntax match mgpuOperator "|>\|\*\*\|//\|[=!<>]=\|[-+*/%@=<>]"
syntax match mgpuEscape +\\["\\nt]+ contained
syntax region mgpuString start=+"+ skip=+\\.+ end=+"+ oneline contains=mgpuEscape
syntax match mgpuComment "#.*$" contains=@Spell
syntax region mgpuBlock start="{" end="}" transparent fold
highlight default link mgpuReserved Keyword
highlight default link mgpuConstant Constant
highlight default link mgpuStatement Statement
highlight default link mgpuLayerName Function
highlight default link mgpuType Type
highlight default link mgpuKnown Identifier
highlight default link mgpuNumber Number
highlight default link mgpuQuantity Number
highlight default link mgpuCall Function
highlight default link mgpuOperator Operator
highlight default link mgpuEscape SpecialChar
highlight default link mgpuString String
highlight default link mgpuComment Comment
let b:current_syntax = 'mgpu'
