" models of mgpuc: four spaces, comments with #, gq by mgpuc fmt
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1
setlocal expandtab shiftwidth=4 softtabstop=4 textwidth=0 commentstring=#\ %s comments=:# suffixesadd=.net
setlocal formatprg=mgpuc\ fmt\ - keywordprg=mgpuc\ doc
setlocal autoindent smartindent cinwords= indentkeys=0{,0},!^F,o,O
let b:undo_ftplugin = 'setlocal et< sw< sts< tw< cms< com< sua< fp< kp< ai< si< cinw< indk<'

" Neovim: errors, hover, completion and more by mgpuc lsp (docs/editors.md); let g:mgpuc_lsp = 0 leaves it off
if has('nvim-0.7') && get(g:, 'mgpuc_lsp', 1) && executable('mgpuc')
  lua require('mgpuc').start()
endif
