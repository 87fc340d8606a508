/**
 * Checks that no test can fail because the machine is slow, and that all draw the same numbers in every run.
 * Looks at the tests of the repository and at what they share, but not at `*.timing.ts`, which measure, nor
 * at benchmarks. Refuses:
 *
 * - an upper bound on a time that passed: an `expect(…)` with a bound above, or an `if (…) throw`, whose
 *   value is computed from a reading of a clock: `performance.now()`, `Date.now()`, `process.hrtime()` or the
 *   `latencyMs` of an attempt. Variables and functions of the same file are followed. A bound that is itself
 *   nothing but a later reading is none: `toBeLessThan(Date.now())`.
 * - `vi.waitFor`, `vi.waitUntil` and `expect.poll`
 * - `Math.random` and `randomInt`
 * - the option `retry` of a test
 *
 * A comment `// clock: reason` on the line above allows one where slowness cannot fail it, such as on a clock
 * that the test itself moves.
 *
 *   node tools/test-clocks.ts           prints one line per breach, exit code 1 if there is one
 *   node tools/test-clocks.ts FOLDER    looks at another repository
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';

export interface TestFile {
  /** From the root of the repository. */
  readonly path: string;
  readonly text: string;
}

const COUNT = 'bounds the time that something takes: count its work, or measure it in a *.timing.ts';
const WAIT = 'wait with until(…) of server/test/support/until.ts';
const DRAW = 'draw from chanceOf(SEED): server/test/support/disk-faults/random.ts and runs.ts';
const ONCE = 'a test passes the first time: without retry';

/** The file that gives up by a clock, for all others. */
const HELPER = 'server/test/support/until.ts';

const FOLDERS = /^(server\/test|cli\/test|clients\/e2e|clients\/[^/]+\/test|console\/test)\//;
const KINDS = /\.(test|faults|postgres|clients|browser)\.ts$/;

/** Whether the file of this path is a test, or shared by tests. */
export function isLookedAt(path: string): boolean {
  if (!/\.m?[jt]s$/.test(path) || path.endsWith('.timing.ts') || path === HELPER) return false;
  return !path.startsWith('bench/') && (KINDS.test(path) || FOLDERS.test(path));
}

/** One line for each breach, in the order of the file. */
export function breachesIn({ path, text }: TestFile): string[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const clocks = new Clocks(source);
  const lines = text.split('\n');
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const message = breachAt(node, clocks);
    const line = source.getLineAndCharacterOfPosition(node.getStart()).line;
    const isExcused = /^\s*\/\/ clock: \S/.test(lines[line - 1] ?? '');
    if (message !== undefined && !isExcused) found.push(`${path}:${line + 1}: ${message}`);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function breachAt(node: ts.Node, clocks: Clocks): string | undefined {
  if (ts.isCallExpression(node) && boundsTime(node, clocks)) return COUNT;
  if (ts.isIfStatement(node) && throws(node.thenStatement) && isLate(node.expression, clocks)) return WAIT;
  if (ts.isPropertyAccessExpression(node)) {
    const name = `${node.expression.getText()}.${node.name.text}`;
    if (['vi.waitFor', 'vi.waitUntil', 'expect.poll'].includes(name)) return WAIT;
    if (name === 'Math.random') return DRAW;
  }
  if (ts.isCallExpression(node) && /^(crypto\.)?randomInt$/.test(node.expression.getText())) return DRAW;
  return isRetry(node) ? ONCE : undefined;
}

const BOUNDS_ABOVE = ['toBeLessThan', 'toBeLessThanOrEqual', 'toBeCloseTo'];
const BOUNDS_BELOW = ['toBeGreaterThan', 'toBeGreaterThanOrEqual'];

/** Whether the call is an `expect(…)` with its matcher that fails when much time has passed. */
function boundsTime(call: ts.CallExpression, clocks: Clocks): boolean {
  if (!ts.isPropertyAccessExpression(call.expression)) return false;
  let { expression: subject } = call.expression;
  const isNegated = ts.isPropertyAccessExpression(subject) && subject.name.text === 'not';
  if (isNegated) subject = (subject as ts.PropertyAccessExpression).expression;
  if (!ts.isCallExpression(subject) || subject.expression.getText() !== 'expect') return false;
  const [value] = subject.arguments;
  if (value === undefined) return false;
  const [bound] = call.arguments;
  const matchers = isNegated ? BOUNDS_BELOW : BOUNDS_ABOVE;
  if (!matchers.includes(call.expression.name.text)) return isEarly(value, clocks);
  return clocks.isRead(value) && !(bound !== undefined && isReading(bound));
}

/** Whether this is a comparison that is true when little time has passed. */
function isEarly(value: ts.Expression, clocks: Clocks): boolean {
  return compares(value, clocks, ts.SyntaxKind.LessThanToken, ts.SyntaxKind.LessThanEqualsToken);
}

/** Whether this is, or has among its parts, a comparison that is true when much time has passed. */
function isLate(condition: ts.Expression, clocks: Clocks): boolean {
  if (ts.isParenthesizedExpression(condition)) return isLate(condition.expression, clocks);
  if (!ts.isBinaryExpression(condition)) return false;
  const { left, right, operatorToken } = condition;
  const isJoined =
    operatorToken.kind === ts.SyntaxKind.AmpersandAmpersandToken ||
    operatorToken.kind === ts.SyntaxKind.BarBarToken;
  if (isJoined) return isLate(left, clocks) || isLate(right, clocks);
  return compares(condition, clocks, ts.SyntaxKind.GreaterThanToken, ts.SyntaxKind.GreaterThanEqualsToken);
}

/**
 * Whether a time is compared by one of these operators, or, on their other side, by one of the opposite
 * direction.
 */
function compares(value: ts.Expression, clocks: Clocks, ...kinds: readonly ts.SyntaxKind[]): boolean {
  if (!ts.isBinaryExpression(value)) return false;
  const { kind } = value.operatorToken;
  if (kinds.includes(kind)) return clocks.isRead(value.left);
  return COMPARISONS.includes(kind) && clocks.isRead(value.right) && !clocks.isRead(value.left);
}

const COMPARISONS: readonly ts.SyntaxKind[] = [
  ts.SyntaxKind.LessThanToken,
  ts.SyntaxKind.LessThanEqualsToken,
  ts.SyntaxKind.GreaterThanToken,
  ts.SyntaxKind.GreaterThanEqualsToken,
];

function throws(statement: ts.Statement): boolean {
  return ts.isBlock(statement) ? statement.statements.some(throws) : ts.isThrowStatement(statement);
}

function isRetry(node: ts.Node): boolean {
  if (!ts.isPropertyAssignment(node) || node.name.getText() !== 'retry') return false;
  const call = node.parent.parent;
  return ts.isCallExpression(call) && /^(it|test|describe)\b/.test(call.expression.getText());
}

/** Whether this is a reading of a clock and nothing more. */
function isReading(node: ts.Expression): boolean {
  return (
    ts.isCallExpression(node) &&
    /^(performance\.now|Date\.now|process\.hrtime(\.bigint)?)$/.test(node.expression.getText())
  );
}

/** Values of a variable, function or list of a file: those of its declaration and of every assignment. */
type Values = ts.Node[];

/** Knows which values of a file are computed from a reading of a clock. */
class Clocks {
  /** The names that each block, function and loop declares. */
  readonly #scopes = new Map<ts.Node, Map<string, Values>>();

  constructor(source: ts.SourceFile) {
    const each = (node: ts.Node, look: (node: ts.Node) => void): void => {
      look(node);
      ts.forEachChild(node, (child) => each(child, look));
    };
    each(source, (node) => this.#declare(node));
    each(source, (node) => this.#assign(node));
  }

  /** `following`: what has led here. */
  isRead(node: ts.Node, following: ReadonlySet<Values> = new Set()): boolean {
    if (ts.isIdentifier(node)) {
      const known = this.#valuesOf(node);
      if (known === undefined || following.has(known)) return false;
      const next = new Set([...following, known]);
      return known.some((value) => !ts.isFunctionLike(value) && this.isRead(value, next));
    }
    if (ts.isCallExpression(node)) return this.#isCallRead(node, following);
    if (ts.isPropertyAccessExpression(node)) {
      if (node.name.text === 'latencyMs') return true;
      return this.isRead(this.#partOf(node) ?? node.expression, following);
    }
    return partsOf(node).some((part) => this.isRead(part, following));
  }

  #isCallRead(call: ts.CallExpression, following: ReadonlySet<Values>): boolean {
    const { expression: called } = call;
    if (isReading(call)) return true;
    const isArithmetic = /^(Math\.\w+|Number|Date\.parse)$/.test(called.getText());
    if (isArithmetic) return call.arguments.some((argument) => this.isRead(argument, following));
    // What a method gives belongs to its object: `times.at(-1)`.
    if (ts.isPropertyAccessExpression(called)) return this.isRead(called.expression, following);
    const known = ts.isIdentifier(called) ? this.#valuesOf(called) : undefined;
    if (known === undefined || following.has(known)) return false;
    const next = new Set([...following, known]);
    const returned = known.filter(ts.isFunctionLike).flatMap(returnedBy);
    return returned.some((value) => this.isRead(value, next));
  }

  /** The one property of an object of this file that is asked for. */
  #partOf({ expression, name }: ts.PropertyAccessExpression): ts.Node | undefined {
    const known = ts.isIdentifier(expression) ? (this.#valuesOf(expression) ?? []) : [];
    const properties = known.filter(ts.isObjectLiteralExpression).flatMap((object) => object.properties);
    return properties.find((one) => one.name?.getText() === name.text);
  }

  #declare(node: ts.Node): void {
    if (ts.isParameter(node)) this.#put(node.name, node);
    else if (ts.isFunctionDeclaration(node) && node.name !== undefined)
      this.#put(node.name, node.parent, node);
    else if (ts.isVariableDeclaration(node)) {
      const loop = node.parent.parent;
      const value = ts.isForOfStatement(loop) ? loop.expression : node.initializer;
      this.#put(node.name, node, value);
    }
  }

  #assign(node: ts.Node): void {
    if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.EqualsToken) {
      if (ts.isIdentifier(node.left)) this.#valuesOf(node.left)?.push(node.right);
    } else if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const { expression: list, name } = node.expression;
      if (name.text === 'push' && ts.isIdentifier(list)) this.#valuesOf(list)?.push(...node.arguments);
    }
  }

  #put(name: ts.BindingName, place: ts.Node, value?: ts.Node): void {
    const scope = scopeOf(place);
    const names = this.#scopes.get(scope) ?? new Map<string, Values>();
    this.#scopes.set(scope, names);
    for (const one of namesIn(name)) names.set(one, value === undefined ? [] : [value]);
  }

  /** Of the variable that is meant here. */
  #valuesOf(name: ts.Identifier): Values | undefined {
    for (let scope: ts.Node = name; !ts.isSourceFile(scope); ) {
      scope = scopeOf(scope.parent);
      const values = this.#scopes.get(scope)?.get(name.text);
      if (values !== undefined) return values;
    }
    return undefined;
  }
}

/** The block, function, loop or file that a place is in. */
function scopeOf(place: ts.Node): ts.Node {
  let scope = place;
  while (!(ts.isBlock(scope) || ts.isFunctionLike(scope) || ts.isIterationStatement(scope, false))) {
    if (ts.isSourceFile(scope)) break;
    scope = scope.parent;
  }
  return scope;
}

/** The parts of an expression that its value is computed from. */
function partsOf(node: ts.Node): readonly ts.Node[] {
  if (ts.isBinaryExpression(node)) return [node.left, node.right];
  if (ts.isConditionalExpression(node)) return [node.whenTrue, node.whenFalse];
  if (ts.isPrefixUnaryExpression(node)) return [node.operand];
  if (ts.isArrayLiteralExpression(node)) return node.elements;
  if (ts.isObjectLiteralExpression(node)) return node.properties;
  if (ts.isPropertyAssignment(node)) return [node.initializer];
  if (ts.isShorthandPropertyAssignment(node)) return [node.name];
  if (
    ts.isParenthesizedExpression(node) ||
    ts.isAwaitExpression(node) ||
    ts.isNonNullExpression(node) ||
    ts.isAsExpression(node) ||
    ts.isSpreadElement(node) ||
    ts.isElementAccessExpression(node)
  )
    return [node.expression];
  return [];
}

function namesIn(name: ts.BindingName): string[] {
  if (ts.isIdentifier(name)) return [name.text];
  return name.elements.flatMap((element) => (ts.isBindingElement(element) ? namesIn(element.name) : []));
}

/** Expressions that a function returns, without those of functions inside it. */
function returnedBy(one: ts.SignatureDeclaration): ts.Expression[] {
  const { body } = one as ts.FunctionLikeDeclaration;
  if (body === undefined) return [];
  if (!ts.isBlock(body)) return [body];
  const found: ts.Expression[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isReturnStatement(node) && node.expression !== undefined) found.push(node.expression);
    if (!ts.isFunctionLike(node)) ts.forEachChild(node, visit);
  };
  visit(body);
  return found;
}

if (import.meta.main) {
  const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..'));
  const listed = ['ls-files', '--cached', '--others', '--exclude-standard'];
  const paths = execFileSync('git', listed, { cwd: root, encoding: 'utf8' }).split('\n').filter(isLookedAt);
  const found = [...new Set(paths)]
    .filter((path) => existsSync(join(root, path)))
    .flatMap((path) => breachesIn({ path, text: readFileSync(join(root, path), 'utf8') }));
  for (const line of found) console.error(line);
  process.exitCode = found.length === 0 ? 0 : 1;
}
