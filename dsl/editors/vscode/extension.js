// Runs `wmc check --json` on files that are opened or saved and shows what it says; formats with `wmc fmt -`.
// Plain JavaScript without dependencies: the folder is the extension.
'use strict';

const { spawn } = require('node:child_process');
const path = require('node:path');
const vscode = require('vscode');

/** The check under way for a document, by its address: a newer one takes its place. */
const underWay = new Map();
/** The addresses that a document's last check has filled. */
const filled = new Map();
/** The command is missing, and that has been said. */
let missing = false;

function activate(context) {
  const collection = vscode.languages.createDiagnosticCollection('wm');
  const check = (document) => checkDocument(document, collection);
  context.subscriptions.push(
    collection,
    vscode.workspace.onDidOpenTextDocument(check),
    vscode.workspace.onDidSaveTextDocument(check),
    vscode.workspace.onDidCloseTextDocument((document) => forget(document, collection)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration('wm')) {
        missing = false;
        vscode.workspace.textDocuments.forEach(check);
      }
    }),
    vscode.languages.registerDocumentFormattingEditProvider('wm', { provideDocumentFormattingEdits: format }),
  );
  vscode.workspace.textDocuments.forEach(check);
}

function deactivate() {
  for (const child of underWay.values()) child.kill();
}

async function checkDocument(document, collection) {
  if (document.languageId !== 'wm' || document.uri.scheme !== 'file') return;
  const key = document.uri.toString();
  underWay.get(key)?.kill();
  const more = vscode.workspace.getConfiguration('wm', document.uri).get('arguments', []);
  const run = start(document, ['check', '--json', ...more, '--', document.uri.fsPath], '');
  underWay.set(key, run.child);
  const result = await run.result;
  // A newer check has started, or the document was closed.
  if (underWay.get(key) !== run.child) return;
  underWay.delete(key);
  if (result) show(document, result.stdout, collection);
}

function forget(document, collection) {
  const key = document.uri.toString();
  underWay.get(key)?.kill();
  underWay.delete(key);
  (filled.get(key) ?? []).forEach((address) => collection.delete(vscode.Uri.parse(address)));
  filled.delete(key);
}

function show(document, lines, collection) {
  const byFile = new Map([[document.uri.toString(), []]]);
  for (const line of lines.split('\n')) {
    const said = parse(line);
    if (!said) continue;
    const uri = address(said.file, document);
    const key = uri.toString();
    if (!byFile.has(key)) byFile.set(key, []);
    byFile.get(key).push(diagnostic(said, uri, document));
  }
  const key = document.uri.toString();
  (filled.get(key) ?? []).forEach((old) => collection.delete(vscode.Uri.parse(old)));
  byFile.forEach((diagnostics, file) => collection.set(vscode.Uri.parse(file), diagnostics));
  filled.set(key, [...byFile.keys()]);
}

function parse(line) {
  try {
    const said = JSON.parse(line);
    return typeof said.message === 'string' ? said : undefined;
  } catch {
    return undefined;
  }
}

/** A file of the check; what is not on the disk (the prelude) is shown at the document itself. */
function address(file, document) {
  return path.isAbsolute(file) ? vscode.Uri.file(file) : document.uri;
}

function diagnostic(said, uri, document) {
  const foreign = !path.isAbsolute(said.file);
  const place = foreign ? new vscode.Range(0, 0, 0, 0) : range(said, uri);
  const words = [said.message, said.label, ...said.notes, ...said.helps.map((help) => `help: ${help}`)];
  const severity = said.severity === 'warning' ? vscode.DiagnosticSeverity.Warning : vscode.DiagnosticSeverity.Error;
  const shown = new vscode.Diagnostic(place, words.filter((word) => word).join('\n'), severity);
  shown.source = 'wmc';
  shown.code = said.code;
  shown.relatedInformation = said.related
    .filter((related) => path.isAbsolute(related.file))
    .map((related) => {
      const there = address(related.file, document);
      return new vscode.DiagnosticRelatedInformation(new vscode.Location(there, range(related, there)), related.label);
    });
  return shown;
}

/** wmc counts lines and characters from 1; the editor counts UTF-16 units from 0. */
function range(at, uri) {
  const open = vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri.toString());
  const unit = (line, column) => {
    if (!open || line >= open.lineCount) return column;
    return [...open.lineAt(line).text].slice(0, column).join('').length;
  };
  const [line, endLine] = [at.line - 1, at.end_line - 1];
  return new vscode.Range(line, unit(line, at.column - 1), endLine, unit(endLine, at.end_column - 1));
}

async function format(document) {
  const result = await start(document, ['fmt', '-'], document.getText()).result;
  if (!result || result.code !== 0) return [];
  const everything = new vscode.Range(0, 0, document.lineCount, 0);
  return [vscode.TextEdit.replace(document.validateRange(everything), result.stdout)];
}

/** Starts the command; the result is undefined where it could not be started or was stopped. */
function start(document, words, input) {
  const command = vscode.workspace.getConfiguration('wm', document.uri).get('command', 'wmc');
  const folder = document.uri.scheme === 'file' ? path.dirname(document.uri.fsPath) : undefined;
  const child = spawn(command, words, { cwd: folder, windowsHide: true });
  const result = new Promise((resolve) => {
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
    child.stderr.resume();
    // A command that ended early closes its input.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    child.on('error', (error) => {
      if (!missing) {
        missing = true;
        vscode.window.showErrorMessage(`wmc cannot be run (${error.message}). Set "wm.command" to its path.`);
      }
      resolve(undefined);
    });
    child.on('close', (code) => resolve(code === null ? undefined : { code, stdout }));
  });
  return { child, result };
}

module.exports = { activate, deactivate };
