-- mgpuc.lua: starts `mgpuc lsp` for the current buffer, one server for each folder. Neovim 0.7 and newer.
local M = {}
local client_of = {} -- by folder; Neovim 0.7 has no vim.lsp.start

local function attach(_, buffer)
  vim.bo[buffer].omnifunc = 'v:lua.vim.lsp.omnifunc'
  vim.bo[buffer].tagfunc = 'v:lua.vim.lsp.tagfunc'
  vim.api.nvim_buf_set_keymap(buffer, 'n', 'K', '<Cmd>lua vim.lsp.buf.hover()<CR>', { noremap = true })
end

function M.start()
  local folder = vim.fn.expand('%:p:h')
  local options = { name = 'mgpuc', cmd = { 'mgpuc', 'lsp' }, root_dir = folder, on_attach = attach }
  if vim.lsp.start then
    vim.lsp.start(options)
    return
  end
  options.on_exit = function() client_of[folder] = nil end
  client_of[folder] = client_of[folder] or vim.lsp.start_client(options)
  vim.lsp.buf_attach_client(0, client_of[folder])
end

return M
