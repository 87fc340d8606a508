import { answered } from './answered.ts';
import { atMost, count, minuteOf, printable } from './column.ts';
import {
  askControl,
  type ControlFault,
  type ControlFlags,
  controlAddress,
  exitCodeOf,
} from './control-api.ts';
import { paintFor } from './paint.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { type Cell, type Heading, table } from './table.ts';
import { readTextOf } from './text-file.ts';

/** The lists of the control API that these verbs show. */
export type ComputationList = 'audiences' | 'traits';

export interface ComputationOptions extends ControlFlags {
  readonly list: ComputationList;
  readonly json?: boolean;
}

export interface NamedComputationOptions extends ComputationOptions {
  /** The argument of the verb. */
  readonly name: string;
}

export interface MembersOptions extends NamedComputationOptions {
  readonly limit: number;
}

export interface SyncOptions extends NamedComputationOptions {
  readonly destination: string;
  readonly dryRun?: boolean;
}

export interface PreviewOptions extends ComputationOptions {
  readonly definition?: string;
  readonly file?: string;
  /** Name of the definition that it would replace. */
  readonly name?: string;
  readonly includeAnonymous?: boolean;
}

/** A record in an answer of `GET /api/v1/audiences`. */
interface ShownComputation {
  readonly name: string;
  readonly key: string;
  readonly definition: string;
  readonly destinations: readonly string[];
  readonly includeAnonymous?: boolean;
  readonly enabled: boolean;
  readonly state: string;
  readonly reason?: string;
  readonly progress: number;
  readonly members: number;
  readonly eventsSince?: string;
  readonly sync: readonly { readonly destination: string; readonly pending: number }[];
}

/** The answer of `POST /api/v1/audiences/preview`. */
export interface ShownPreview {
  readonly members: number;
  readonly sample: readonly string[];
  readonly enters: number;
  readonly leaves: number;
  readonly eventsSince?: string;
  /** Events that are not counted yet; absent when all are. */
  readonly eventsBehind?: number;
  readonly warnings: readonly { readonly message: string }[];
}

interface Page<Entry> {
  readonly data: readonly Entry[];
  readonly next: string | null;
}

/** Entries of one page at most. spec/contract.md, "Conventions". */
const PAGE = 500;

/** Milliseconds to wait for a preview, which reads all stored events. */
export const PREVIEW_PATIENCE = 300_000;

/** Columns of a definition on a terminal. */
const DEFINITION = 60;

/** `millrace audience list`, `millrace trait list`. */
export async function listComputations(options: ComputationOptions, context: RunContext): Promise<ExitCode> {
  const { list } = options;
  const reply = await answered(options, context, {
    method: 'GET',
    path: list,
    query: { limit: String(PAGE) },
  });
  if (typeof reply === 'number') return reply;
  if (options.json) {
    context.out.write(`${reply.text}\n`);
    return 0;
  }
  const { data } = reply.value as Page<ShownComputation>;
  if (data.length === 0) {
    const noun = list === 'audiences' ? 'audiences' : 'computed traits';
    context.out.write(`No ${noun} yet; millrace apply -f FILE makes those of a file.\n`);
    return 0;
  }
  const headings: Heading[] = [
    { title: 'name', align: 'left' },
    { title: 'state', align: 'left' },
    { title: list === 'audiences' ? 'members' : 'users', align: 'right' },
    { title: 'destinations', align: 'left', least: 12 },
    { title: 'definition', align: 'left', most: DEFINITION, least: 20 },
  ];
  const rows = data.map((one): Cell[] => [
    { text: one.name },
    { text: stateText(one) },
    { text: count(one.members) },
    { text: one.destinations.join(', ') || 'none' },
    { text: one.definition.replace(/\s+/g, ' ') },
  ]);
  context.out.write(`${table(headings, rows, paintFor(context.out, context.env)).join('\n')}\n`);
  return 0;
}

function stateText({ state, progress }: Pick<ShownComputation, 'state' | 'progress'>): string {
  return state === 'computing' ? `computing ${Math.floor(progress * 100)} %` : state;
}

/**
 * `millrace audience sync NAME --destination D`, `millrace trait sync …`: a destination is told every member
 * again.
 */
export async function syncComputation(options: SyncOptions, context: RunContext): Promise<ExitCode> {
  const { list, name, destination, dryRun = false, json = false } = options;
  const path = `${list}/${encodeURIComponent(name)}/sync`;
  const reply = await answered(options, context, { method: 'POST', path, body: { destination, dryRun } });
  if (typeof reply === 'number') return reply;
  if (json) {
    context.out.write(`${reply.text}\n`);
    return 0;
  }
  const { members } = reply.value as { readonly members: number };
  const whom = list === 'audiences' ? `${count(members)} members` : `the values of ${count(members)} users`;
  context.out.write(
    dryRun
      ? `${printable(destination)} would be told ${whom} again; nothing was changed.\n`
      : `${printable(destination)} is told ${whom} again; millrace ${list === 'audiences' ? 'audience' : 'trait'} show says how many it is still owed.\n`,
  );
  return 0;
}

/** `millrace audience show NAME`, `millrace trait show NAME`. */
export async function showComputation(
  options: NamedComputationOptions,
  context: RunContext,
): Promise<ExitCode> {
  const { list, name } = options;
  const path = `${list}/${encodeURIComponent(name)}`;
  const reply = await answered(options, context, { method: 'GET', path });
  if (typeof reply === 'number') return reply;
  context.out.write(options.json ? `${reply.text}\n` : computationReport(reply.value as ShownComputation));
  return 0;
}

const LABEL = 14;

function computationReport(one: ShownComputation): string {
  const rows: [string, string][] = [
    ['key', one.key],
    ['state', one.reason === undefined ? stateText(one) : `${stateText(one)}: ${one.reason}`],
    ['members', count(one.members)],
    ...(one.includeAnonymous === true ? [['anonymous', 'may be members'] as [string, string]] : []),
    ...(one.eventsSince === undefined
      ? []
      : [['events since', minuteOf(one.eventsSince)] as [string, string]]),
    ['destinations', one.destinations.join(', ') || 'none'],
    ...one.sync
      .filter(({ pending }) => pending > 0)
      .map(({ destination, pending }): [string, string] => [
        '',
        `${destination} is still owed ${count(pending)}`,
      ]),
  ];
  const definition = one.definition.split('\n').map((line) => `  ${printable(line)}`);
  const lines = rows.map(([label, value]) => `  ${label.padEnd(LABEL)}${printable(value)}`);
  return `${[printable(one.name), ...lines, '', ...definition].join('\n')}\n`;
}

interface ShownMember {
  readonly userId?: string;
  readonly since: string;
  readonly value: unknown;
}

/** `millrace audience members NAME`, `millrace trait members NAME`. JSON comes one member a line. */
export async function listMembers(options: MembersOptions, context: RunContext): Promise<ExitCode> {
  const { list, name, limit } = options;
  const found: ShownMember[] = [];
  let cursor: string | undefined;
  do {
    const reply = await answered(options, context, {
      method: 'GET',
      path: `${list}/${encodeURIComponent(name)}/members`,
      query: { limit: String(Math.min(PAGE, limit - found.length)), cursor },
    });
    if (typeof reply === 'number') return reply;
    const { data, next } = reply.value as Page<ShownMember>;
    if (options.json) for (const one of data) context.out.write(`${JSON.stringify(one)}\n`);
    found.push(...data);
    cursor = next ?? undefined;
  } while (cursor !== undefined && found.length < limit);
  if (options.json) return 0;
  if (found.length === 0) {
    context.out.write(list === 'audiences' ? 'No members.\n' : 'No user has a value.\n');
    return 0;
  }
  const headings: Heading[] = [
    { title: 'user', align: 'left' },
    { title: 'since', align: 'left' },
    ...(list === 'traits' ? [{ title: 'value', align: 'left' as const, least: 10 }] : []),
  ];
  const rows = found.map(({ userId = '(anonymous)', since, value }): Cell[] => [
    { text: userId },
    { text: minuteOf(since) },
    ...(list === 'traits' ? [{ text: JSON.stringify(value) }] : []),
  ]);
  context.out.write(`${table(headings, rows, paintFor(context.out, context.env)).join('\n')}\n`);
  if (cursor !== undefined)
    context.err.write(`millrace: these are the first ${count(found.length)}; see --limit.\n`);
  return 0;
}

/** `millrace audience preview`, `millrace trait preview`: computes a definition and keeps nothing. */
export async function previewComputation(options: PreviewOptions, context: RunContext): Promise<ExitCode> {
  const definition = await definitionOf(options, context);
  if (typeof definition === 'number') return definition;
  const address = controlAddress(options, context.env);
  if (typeof address === 'string') {
    context.err.write(`millrace: ${address}.\n`);
    return 2;
  }
  const { list, name, includeAnonymous } = options;
  const reply = await askControl(address, `${list}/preview`, {
    method: 'POST',
    body: { definition, name, includeAnonymous },
    patience: PREVIEW_PATIENCE,
  });
  if (reply.kind === 'failed') {
    const faults = reply.problem?.errors.filter(({ path }) => path === 'body.definition') ?? [];
    if (faults.length === 0) context.err.write(`millrace: ${reply.message}.\n`);
    else for (const fault of faults) context.err.write(`${faultReport(fault, definition)}\n`);
    return exitCodeOf(reply);
  }
  const shown = reply.value as ShownPreview;
  if (options.json) context.out.write(`${reply.text}\n`);
  else context.out.write(previewReport(shown, list, name));
  for (const { message } of shown.warnings) context.err.write(`millrace: warning: it ${message}.\n`);
  return 0;
}

async function definitionOf(
  { definition, file }: PreviewOptions,
  context: RunContext,
): Promise<string | ExitCode> {
  if ((definition === undefined) === (file === undefined)) {
    context.err.write('millrace: give the definition by --definition TEXT, or by -f FILE.\n');
    return 2;
  }
  if (definition !== undefined) return definition;
  const text = await readTextOf(file!, context.in);
  if (typeof text === 'string') return text;
  context.err.write(`millrace: the file ${file} ${text.reason}.\n`);
  return 2;
}

/**
 * A mistake under its line:
 *
 * ```
 * millrace: 1:13: expected a comparison behind trait('x'), such as = 'pro' or exists, found wat
 *   trait('x') wat 5
 *              ^
 * ```
 */
function faultReport({ message, place }: ControlFault, definition: string): string {
  if (place === undefined) return `millrace: the definition ${printable(message)}`;
  const head = `millrace: ${place.line}:${place.column}: ${printable(message)}`;
  const line = definition.split('\n')[place.line - 1] ?? '';
  if (printable(line) !== line) return head;
  return [head, `  ${line}`, `  ${' '.repeat(place.column - 1)}^`].join('\n');
}

function previewReport(shown: ShownPreview, list: ComputationList, name: string | undefined): string {
  const { members, sample, enters, leaves, eventsSince } = shown;
  const member = members === 1 ? 'would be a member' : 'would be members';
  const who = list === 'audiences' ? member : 'would have a value';
  const compared =
    name === undefined
      ? ''
      : ` Compared with ${printable(name)}, ${count(enters)} enter and ${count(leaves)} leave.`;
  const since =
    eventsSince === undefined
      ? 'No events are stored yet.'
      : `Events since ${minuteOf(eventsSince)} are stored and counted.`;
  const behind = soFar(shown);
  const some = sample.length === 0 ? [] : [`Some of them: ${atMost(sample.map(printable).join(', '), 200)}`];
  const lines = [
    `${count(members)} ${members === 1 ? 'user' : 'users'} ${who}${behind}.${compared}`,
    ...some,
    since,
  ];
  return `${lines.join('\n')}\n`;
}

/** Text behind a number that is not complete yet; empty for a complete one. */
export function soFar({ eventsBehind = 0 }: Pick<ShownPreview, 'eventsBehind'>): string {
  if (eventsBehind === 0) return '';
  return ` so far (${count(eventsBehind)} ${eventsBehind === 1 ? 'event is' : 'events are'} not counted yet)`;
}
