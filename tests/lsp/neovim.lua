-- neovim.lua: Neovim's own client, without a screen, on a model with one wrong name: nvim --headless --clean m.net -S neovim.lua.
-- Each line of the output is a case, as of the other tests.
local function say(case, good, got)
  io.stdout:write((good and 'ok ' or 'not ok ') .. case .. (good and '' or ': ' .. vim.inspect(got):gsub('%s+', ' '):sub(1, 600)) .. '\n')
end

local function wait(what) return vim.wait(20000, what, 20) end

local function at(line, column) vim.api.nvim_win_set_cursor(0, { line, column }) end

local function ask(method, more)
  local parameters = vim.tbl_extend('force', vim.lsp.util.make_position_params(), more or {})
  local answer = vim.lsp.buf_request_sync(0, 'textDocument/' .. method, parameters, 20000)
  for _, a in pairs(answer or {}) do return a.result, a.err end
end

local function all() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n') end

local function run()
  wait(function() return #vim.diagnostic.get(0) > 0 end)
  local d = vim.diagnostic.get(0)
  say("Neovim shows what is wrong", #d == 1 and d[1].lnum == 4 and d[1].col == 35
    and d[1].message == "unknown layer or function 'dnese'; did you mean 'dense'?", d)
  vim.cmd('5substitute/dnese/dense/')
  say("Neovim shows that it is right", wait(function() return #vim.diagnostic.get(0) == 0 end), vim.diagnostic.get(0))
  at(5, 36)
  local hover = ask('hover')
  say("hover in Neovim", hover and hover.contents.value:find('dense', 1, true), hover)
  say("K is hover", vim.fn.maparg('K', 'n'):find('hover', 1, true), vim.fn.maparg('K', 'n'))
  at(6, 23)
  vim.cmd('execute "normal! \\<C-]>"')
  say("Ctrl-] goes to the definition", vim.api.nvim_win_get_cursor(0)[1] == 5, vim.api.nvim_win_get_cursor(0))
  at(5, 37)
  local list = ask('completion')
  say("completion in Neovim", list and vim.tbl_contains(vim.tbl_map(function(i) return i.label end, list.items or list), 'dense'), list)
  at(5, 4)
  vim.lsp.buf.rename('scores')
  say("rename in Neovim", wait(function() return all():find('cross_entropy(scores, label)', 1, true) end) and all():find('    scores = image', 1, true), all())
  vim.api.nvim_buf_set_lines(0, 4, 5, false, { '  scores=image |> flatten()|>dense( 10 )' })
  local edits = ask('formatting', { options = { tabSize = 4, insertSpaces = true } })
  vim.lsp.util.apply_text_edits(edits or {}, 0, 'utf-16')
  say("layout in Neovim", all():find('\n    scores = image |> flatten() |> dense(10)\n', 1, true), all())
end

local good, why = pcall(run)
say("Neovim goes through", good, why)
vim.cmd('qall!')
