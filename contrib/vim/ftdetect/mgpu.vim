autocmd BufNewFile,BufRead *.net setfiletype mgpu
