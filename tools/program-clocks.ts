/**
 * Checks that the program asks the clock and the chance that it was given, and not those of the machine: a
 * simulation, or a test that moves the clock, has no power over the others. `OWN` lists the files of
 * `server/src` that may ask the machine, each with its reason; a file that is not in it is refused, and so is
 * an entry that is not needed any more.
 *
 *   node tools/program-clocks.ts           prints one line per breach, exit code 1 if there is one
 *   node tools/program-clocks.ts --list    prints the list with what each file asks for
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

const ROOT = join(import.meta.dirname, '..');
const SOURCES = 'server/src/';

/** Names of the machine's clocks, timers and chance, as they stand in an expression. */
const ASKED = new Set([
  ...['setTimeout', 'setInterval', 'setImmediate', 'performance.now', 'Date.now', 'process.hrtime'],
  ...['process.hrtime.bigint', 'process.nextTick', 'queueMicrotask', 'Atomics.wait', 'Math.random'],
  ...['randomBytes', 'randomUUID', 'randomInt', 'uuidv7', 'crypto.randomUUID', 'crypto.getRandomValues'],
]);

const TIMERS = 'node:timers/promises';

/** Why these may: a path that ends with a slash stands for a folder. */
export const OWN: Readonly<Record<string, string>> = {
  'adapters/http-client/': 'sockets of the machine: no world has any',
  'adapters/smtp/mailer.ts': 'sockets of the machine: no world has any',
  'adapters/system/': 'the clock of the machine itself, and its memory',
  'adapters/postgres/':
    'connections to a server, which keeps time itself; leases go by the clock (member.ts, nodes.ts)',
  'adapters/sqlite/': 'threads and files of the machine',
  'http/': 'sockets of the machine; the turns of calls go by the clock (admission.ts)',
  'control-api/auth.ts': 'the admin token is a secret: chance of the machine',
  'control-api/sessions.ts': 'sessions are secrets: chance of the machine',
  'control-api/signing-key.ts': 'keys are secrets: chance of the machine',
  'control-api/token-uses.ts': 'a file is written once in a while',
  'control-api/operations/sources.ts': 'write keys are drawn by the machine',
  'control-api/operations/tokens.ts': 'tokens are secrets: chance of the machine',
  'delivery/round.ts': 'a result that is known at once is told after the caller has returned',
  'model/invariant.ts': 'a broken invariant ends the process, outside of every catch',
  'telemetry/logging.ts': 'lines of the log have the time of the machine',
  'users/computation/computations.ts': 'the name of a lineage is drawn once',
  'users/computation/preview.ts': 'long work lets messages in: a turn of its thread',
  'users/splits/doubtful-merges.ts': 'long work lets messages in: a turn of its thread',
  'users/splits/remaking.ts': 'long work lets messages in: a turn of its thread',
  'wiring/control-operations.ts': 'ids of what operators make',
  'app.ts': 'hands chance and ids to everybody else',
};

/** The names of what a file asks the machine for, each once. */
export function askedIn(path: string, text: string): readonly string[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const asked = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      if (ts.isStringLiteral(node.moduleSpecifier) && node.moduleSpecifier.text === TIMERS) asked.add(TIMERS);
      return;
    }
    if (ts.isTypeNode(node)) return;
    if (
      ts.isNewExpression(node) &&
      node.expression.getText() === 'Date' &&
      (node.arguments ?? []).length === 0
    )
      asked.add('new Date()');
    if (ts.isPropertyAccessExpression(node) && ASKED.has(node.getText())) asked.add(node.getText());
    else if (ts.isIdentifier(node) && ASKED.has(node.text) && isReference(node)) asked.add(node.text);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return [...asked];
}

/** Whether the name stands for a value, and is not the name of a property or a parameter. */
function isReference(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node;
  if (ts.isPropertyAssignment(parent)) return parent.initializer === node;
  if (ts.isBindingElement(parent)) return parent.initializer === node;
  const isName =
    ts.isMethodDeclaration(parent) || ts.isMethodSignature(parent) || ts.isPropertySignature(parent);
  return !isName && !ts.isParameter(parent);
}

/** The entry of the list that a file falls under. */
function entryOf(path: string): string | undefined {
  return Object.keys(OWN).find((entry) => (entry.endsWith('/') ? path.startsWith(entry) : path === entry));
}

/** One line for each breach. `files`: paths below `server/src` with their texts. */
export function breachesIn(files: readonly { readonly path: string; readonly text: string }[]): string[] {
  const used = new Set<string>();
  const found: string[] = [];
  for (const { path, text } of files) {
    const asked = askedIn(path, text);
    const entry = entryOf(path);
    if (asked.length > 0 && entry !== undefined) used.add(entry);
    else if (asked.length > 0)
      found.push(
        `${SOURCES}${path} asks the machine (${asked.join(', ')}): take a Clock or a source of chance from the caller, or give a reason in tools/program-clocks.ts`,
      );
  }
  const unused = Object.keys(OWN).filter((entry) => !used.has(entry));
  return [
    ...found,
    ...unused.map(
      (entry) => `tools/program-clocks.ts: ${entry} asks the machine for nothing any more: take it out`,
    ),
  ];
}

if (import.meta.main) {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', SOURCES], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  const files = [...new Set(listed.split('\n'))]
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.endsWith('.timing.ts'))
    .filter((path) => !path.includes('/assembly/'))
    .map((path) => ({ path: path.slice(SOURCES.length), text: readFileSync(join(ROOT, path), 'utf8') }));
  if (process.argv[2] === '--list') {
    for (const { path, text } of files) {
      const asked = askedIn(path, text);
      if (asked.length > 0)
        console.log(`${path}: ${asked.join(', ')}; ${OWN[entryOf(path) ?? ''] ?? 'no reason'}`);
    }
  } else {
    const found = breachesIn(files);
    for (const line of found) console.error(line);
    process.exitCode = found.length === 0 ? 0 : 1;
  }
}
