import ts from 'typescript';

/** One change of a file that some test should notice. */
export interface Mutant {
  readonly id: number;
  /** From the root of the repository. */
  readonly path: string;
  /** From 1. */
  readonly line: number;
  /** The same after lines were moved: where it is, and what is changed into what. */
  readonly key: string;
}

export interface Mutated {
  /** The file with every mutant in it, each in force where `isMutant` says so. */
  readonly text: string;
  readonly mutants: readonly Mutant[];
}

const K = ts.SyntaxKind;

/** Operators, and what each is changed into. */
const SWAPS: ReadonlyMap<ts.SyntaxKind, string> = new Map([
  [K.LessThanToken, '<='],
  [K.LessThanEqualsToken, '<'],
  [K.GreaterThanToken, '>='],
  [K.GreaterThanEqualsToken, '>'],
  [K.EqualsEqualsEqualsToken, '!=='],
  [K.ExclamationEqualsEqualsToken, '==='],
  [K.AmpersandAmpersandToken, '||'],
  [K.BarBarToken, '&&'],
  [K.PlusToken, '-'],
  [K.MinusToken, '+'],
  [K.PlusEqualsToken, '-='],
  [K.MinusEqualsToken, '+='],
]);

/** A call that is never missed: it says what cannot be. */
const UNMISSED = /^(super|invariant)$/;

/**
 * Writes every mutant of a file into it. Each is an insertion before and behind what it changes. Only one is
 * in force at a time, so the changed form of an expression has no others in it.
 *
 * @param first number of the first mutant
 */
export function mutate(path: string, text: string, first = 0): Mutated {
  const sites = new Sites(path, text, first);
  sites.visit(sites.source);
  return { text: `${PRELUDE}${sites.inserted()}`, mutants: sites.mutants };
}

/**
 * `MILLRACE_MUTANT` is the number of the mutant in force. Where `MILLRACE_MUTANTS_REACHED` names a file,
 * none is, and the file gets the number of each that a test has come by. A process that comes by mutants more
 * than `MILLRACE_MUTANT_STEPS` times ends itself: it would go on for ever.
 */
const PRELUDE =
  `const isMutant: (id: number) => boolean = ((globalThis as any)[Symbol.for('millrace.mutant')] ??= (() => {
  const { MILLRACE_MUTANT: one, MILLRACE_MUTANTS_REACHED: file, MILLRACE_MUTANT_STEPS: most } = process.env;
  const fs = process.getBuiltinModule('node:fs');
  const reached = new Set<number>();
  const inForce = Number(one ?? -1);
  let left = Number(most ?? Infinity);
  if (!file)
    return (id: number) => {
      if (--left < 0) process.kill(process.pid, 'SIGKILL');
      return id === inForce;
    };
  return (id: number) => {
    if (!reached.has(id)) fs.appendFileSync(file, reached.add(id) && id + '\\n');
    return false;
  };
})());`.replaceAll(/\s*\n\s*/g, ' ');

class Sites {
  readonly source: ts.SourceFile;
  readonly mutants: Mutant[] = [];
  readonly #path: string;
  readonly #text: string;
  readonly #first: number;
  /** Insertions by their place. What ends at a place is before what begins there. */
  readonly #before = new Map<number, string[]>();
  readonly #behind = new Map<number, string[]>();
  readonly #keys = new Map<string, number>();

  constructor(path: string, text: string, first: number) {
    this.#path = path;
    this.#text = text;
    this.#first = first;
    this.source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  }

  inserted(): string {
    const places = [...new Set([...this.#before.keys(), ...this.#behind.keys()])].sort((a, b) => a - b);
    let made = '';
    let at = 0;
    for (const place of places) {
      made += this.#text.slice(at, place);
      made += [...(this.#behind.get(place) ?? []), ...(this.#before.get(place) ?? [])].join('');
      at = place;
    }
    return made + this.#text.slice(at);
  }

  visit(node: ts.Node): void {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return;
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    const ends = this.#mutantsOf(node).map(([before, behind]) => {
      add(this.#before, node.getStart(this.source), before);
      return behind;
    });
    ts.forEachChild(node, (child) => this.visit(child));
    for (const behind of ends.reverse()) add(this.#behind, node.getEnd(), behind);
  }

  /** The text to insert before and behind a node, outermost first. */
  #mutantsOf(node: ts.Node): (readonly [string, string])[] {
    const found: (readonly [string, string])[] = [];
    if (ts.isExpressionStatement(node) && canBeLeftOut(node, this.source))
      found.push([`{ if (!isMutant(${this.#note(node, 'left out')})) { `, ' }}']);
    if (isCondition(node)) found.push(this.#condition(node));
    for (const [what, changed] of this.#changed(node))
      found.push([`(isMutant(${this.#note(node, what)}) ? ${changed} : `, ')']);
    return found;
  }

  #condition(node: ts.Node): readonly [string, string] {
    const isNever = `!isMutant(${this.#note(node, 'false')})`;
    // A loop without an end would be noticed by nothing but its time.
    const isLoop = !ts.isIfStatement(node.parent) && !ts.isConditionalExpression(node.parent);
    if (isLoop) return [`(${isNever} && (`, '))'];
    return [`(isMutant(${this.#note(node, 'true')}) || (${isNever} && (`, ')))'];
  }

  /** The other forms of an expression. */
  *#changed(node: ts.Node): Generator<readonly [string, string]> {
    const text = (part: ts.Node) => this.#text.slice(part.getStart(this.source), part.getEnd());
    if (ts.isBinaryExpression(node)) {
      const { left, right, operatorToken } = node;
      const swap = SWAPS.get(operatorToken.kind);
      if (swap !== undefined && !isText(left) && !isText(right))
        yield [`${operatorToken.getText(this.source)} → ${swap}`, `(${text(left)} ${swap} ${text(right)})`];
      if (operatorToken.kind === K.QuestionQuestionToken) {
        yield ['?? → left', `(${text(left)})`];
        yield ['?? → right', `(${text(right)})`];
      }
      if (operatorToken.kind === K.QuestionQuestionEqualsToken && !ts.isExpressionStatement(node.parent))
        yield ['??= → =', `(${text(left)} = ${text(right)})`];
    }
    if (node.kind === K.TrueKeyword || node.kind === K.FalseKeyword)
      yield ['flipped', node.kind === K.TrueKeyword ? 'false' : 'true'];
    if (ts.isPrefixUnaryExpression(node) && node.operator === K.ExclamationToken && !isCondition(node))
      yield ['! left out', `(${text(node.operand)})`];
    if (isWholeChain(node))
      for (const { pos } of questionDots(node)) {
        const start = node.getStart(this.source);
        const at = this.#text.indexOf('?.', pos);
        const dot = /^[[(]/.test(this.#text.slice(at + 2).trimStart()) ? '' : '.';
        yield ['?. → .', `(${this.#text.slice(start, at)}${dot}${this.#text.slice(at + 2, node.getEnd())})`];
      }
  }

  #note(node: ts.Node, what: string): number {
    const id = this.#first + this.mutants.length;
    const { line } = this.source.getLineAndCharacterOfPosition(node.getStart(this.source));
    const shown = node.getText(this.source).replaceAll(/\s+/g, ' ');
    const place = placeOf(node, this.source);
    const plain = `${place}${what}: ${shown.length > 120 ? `${shown.slice(0, 119)}…` : shown}`;
    const nth = (this.#keys.get(plain) ?? 0) + 1;
    this.#keys.set(plain, nth);
    const key = nth === 1 ? plain : `${plain} (${nth})`;
    this.mutants.push({ id, path: this.#path, line: line + 1, key });
    return id;
  }
}

function add(insertions: Map<number, string[]>, place: number, text: string): void {
  insertions.set(place, [...(insertions.get(place) ?? []), text]);
}

/** Calls, assignments and steps. The fields that a constructor sets are taken for granted. */
function canBeLeftOut({ expression, parent }: ts.ExpressionStatement, source: ts.SourceFile): boolean {
  const isWrapped = ts.isAwaitExpression(expression) || ts.isVoidExpression(expression);
  const inner = isWrapped ? expression.expression : expression;
  if (ts.isCallExpression(inner)) return !UNMISSED.test(inner.expression.getText(source));
  if (ts.isPostfixUnaryExpression(inner) || ts.isPrefixUnaryExpression(inner)) return true;
  if (ts.isDeleteExpression(inner)) return true;
  if (!ts.isBinaryExpression(inner)) return false;
  const isAssignment =
    inner.operatorToken.kind >= K.FirstAssignment && inner.operatorToken.kind <= K.LastAssignment;
  return isAssignment && !ts.isConstructorDeclaration(parent.parent);
}

function isCondition(node: ts.Node): boolean {
  const { parent } = node;
  if (parent === undefined || node.kind === K.TrueKeyword) return false;
  if (ts.isIfStatement(parent) || ts.isWhileStatement(parent)) return parent.expression === node;
  return (ts.isConditionalExpression(parent) || ts.isForStatement(parent)) && parent.condition === node;
}

function isText(node: ts.Node): boolean {
  if (ts.isParenthesizedExpression(node)) return isText(node.expression);
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === K.PlusToken)
    return isText(node.left) || isText(node.right);
  return ts.isStringLiteralLike(node) || ts.isTemplateExpression(node);
}

/** An expression with `?.` in it, up to where the rest of it is left out when there is nothing. */
function isWholeChain(node: ts.Node): node is ts.Expression {
  if (!ts.isOptionalChain(node)) return false;
  const { parent } = node;
  return !ts.isDeleteExpression(parent) && !(ts.isOptionalChain(parent) && parent.expression === node);
}

function questionDots(node: ts.Node): ts.Node[] {
  const found: ts.Node[] = [];
  for (let at: ts.Node = node; ts.isOptionalChain(at); at = at.expression)
    if (!ts.isNonNullChain(at) && at.questionDotToken !== undefined) found.push(at.questionDotToken);
  return found;
}

/** Names of the classes and functions around a node. */
function placeOf(node: ts.Node, source: ts.SourceFile): string {
  const names: string[] = [];
  for (let at = node.parent; at !== undefined; at = at.parent) {
    if (
      ts.isClassDeclaration(at) ||
      ts.isFunctionDeclaration(at) ||
      ts.isMethodDeclaration(at) ||
      ts.isAccessor(at) ||
      ts.isPropertyDeclaration(at)
    )
      names.unshift(at.name?.getText(source) ?? '');
    else if (ts.isConstructorDeclaration(at)) names.unshift('constructor');
    else if (ts.isVariableStatement(at) && ts.isSourceFile(at.parent))
      names.unshift(at.declarationList.declarations[0]!.name.getText(source));
  }
  return names.length === 0 ? '' : `${names.join('.')}: `;
}
