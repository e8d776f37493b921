// Starts `mgpuc lsp` for models. Without vscode-languageclient (npm install) the rest of the extension works.
const vscode = require('vscode')

let client

async function activate() {
  const path = vscode.workspace.getConfiguration('mgpuc').get('path')
  let library
  try {
    library = require('vscode-languageclient/node')
  } catch (error) {
    vscode.window.showWarningMessage(`mgpuc: ${error.message}; call npm install in ${__dirname} for errors, hover and completion`)
    return
  }
  const options = { documentSelector: [{ language: 'mgpu' }] }
  client = new library.LanguageClient('mgpuc', 'mgpuc', { command: path, args: ['lsp'] }, options)
  await client.start()
}

function deactivate() {
  return client ? client.stop() : undefined
}

module.exports = { activate, deactivate }
