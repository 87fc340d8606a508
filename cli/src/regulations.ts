import { setTimeout } from 'node:timers/promises';
import { type AskedFor, answered } from './answered.ts';
import type { ControlFlags } from './control-api.ts';
import { canBeAsked, isConfirmed } from './question.ts';
import {
  foreseenLines,
  isIncomplete,
  isRegulation,
  receiptLines,
  type ShownForeseen,
  type ShownRegulation,
  type ShownSubject,
  subjectLines,
} from './receipt.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { doubtAbout, readUserIds, type UserIdOptions } from './user-ids.ts';

interface WaitingFlags extends ControlFlags {
  readonly json?: boolean;
  readonly wait?: boolean;
}

export interface RegulateOptions extends WaitingFlags, UserIdOptions {
  readonly type: 'DELETE_ONLY' | 'SUPPRESS_WITH_DELETE' | 'SUPPRESS_ONLY' | 'UNSUPPRESS';
  /** True to include userIds that client sources alone have joined. */
  readonly confirm?: boolean;
  /** True to only show which users it would affect. */
  readonly dryRun?: boolean;
  /** True to go on without a question. */
  readonly yes?: boolean;
}

export interface RegulationOptions extends WaitingFlags {
  readonly id: string;
  /** True to show the users of the regulation instead. */
  readonly subjects?: boolean;
}

/** Milliseconds between two requests for the receipt. */
const EVERY = 250;

/**
 * `millrace delete-user`, `suppress` and `unsuppress`: make regulations, each of as many users as the server
 * takes at once.
 */
export async function regulate(options: RegulateOptions, context: RunContext): Promise<ExitCode> {
  const request = await regulationRequest(options, context);
  if (request === undefined) return 2;
  if (options.dryRun === true) return await foreseen(options, context, request);
  const code = await askAboutDoubts(options, context, request);
  if (code !== undefined) return code;
  const made = await asked(options, context, request);
  if (typeof made === 'number') return made;
  return await shown(made, options, context);
}

/**
 * The request that makes a regulation. Undefined, with the reason on stderr, where the options name no users.
 */
async function regulationRequest(
  options: Pick<RegulateOptions, 'type' | 'confirm'> & UserIdOptions,
  context: RunContext,
): Promise<AskedFor | undefined> {
  const ids = await readUserIds(options, context);
  if (typeof ids !== 'string') {
    const named = options.anonymous === true ? { anonymousIds: ids } : { subjectIds: ids };
    const confirm = options.confirm === true ? { confirm: true } : {};
    return { path: 'regulations', method: 'POST', body: { type: options.type, ...named, ...confirm } };
  }
  context.err.write(`millrace: ${ids}.\n`);
  return undefined;
}

/** Shows which users a regulation would affect, with what joined each id. Changes nothing. */
async function foreseen(
  options: RegulateOptions,
  context: RunContext,
  { body, ...request }: AskedFor,
): Promise<ExitCode> {
  const reply = await answered(options, context, { ...request, body: { ...(body as object), dryRun: true } });
  if (typeof reply === 'number') return reply;
  const isErasing = options.type === 'DELETE_ONLY' || options.type === 'SUPPRESS_WITH_DELETE';
  const lines = isErasing ? foreseenLines : ({ found = [] }: ShownForeseen) => subjectLines(found);
  context.out.write(options.json === true ? `${reply.text}\n` : linesOf(lines(reply.value as ShownForeseen)));
  return 0;
}

function linesOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}

interface NamedIds {
  readonly subjectIds?: readonly string[];
  readonly anonymousIds?: readonly string[];
}

/**
 * Asks for confirmation when ids look as if they had extra characters around them and, by a dry run, name
 * nobody. Returns an exit code to end the command; undefined to go on.
 */
async function askAboutDoubts(
  options: RegulateOptions,
  context: RunContext,
  { body, ...request }: AskedFor,
): Promise<ExitCode | undefined> {
  const { subjectIds = [], anonymousIds = [] } = body as NamedIds;
  if (options.yes === true || doubtAbout([...subjectIds, ...anonymousIds]) === undefined) return undefined;
  const reply = await answered(options, context, { ...request, body: { ...(body as object), dryRun: true } });
  if (typeof reply === 'number') return reply;
  const doubt = doubtAbout(unknownIn(reply.value));
  if (doubt === undefined) return undefined;
  if (!canBeAsked(context)) {
    context.err.write(`millrace: ${doubt}. Nothing was done; --yes goes on all the same.\n`);
    return 2;
  }
  return (await isConfirmed(`millrace: ${doubt}. Go on all the same?`, context)) ? undefined : 1;
}

/** The ids that name nobody, by the answer to a dry run. Earlier servers do not say. */
function unknownIn(answer: unknown): readonly string[] {
  const { unknown = [] } = answer as { readonly unknown?: readonly string[] };
  return unknown;
}

/** `millrace regulation ID`. */
export async function regulation(options: RegulationOptions, context: RunContext): Promise<ExitCode> {
  if (options.subjects === true) return await subjects(options, context);
  const found = await asked(options, context, receiptOf(options.id));
  return typeof found === 'number' ? found : await shown(found, options, context);
}

async function subjects(options: RegulationOptions, context: RunContext): Promise<ExitCode> {
  const path = `${receiptOf(options.id).path}/subjects`;
  const reply = await answered(options, context, { path, method: 'GET' });
  if (typeof reply === 'number') return reply;
  const { data } = reply.value as { readonly data: readonly ShownSubject[] };
  const none = ['It has ended: whom it was about is not known any more.'];
  const lines = data.length === 0 ? none : subjectLines(data);
  context.out.write(options.json === true ? `${reply.text}\n` : linesOf(lines));
  return 0;
}

interface Reply {
  readonly value: ShownRegulation;
  readonly text: string;
}

/** The request for a receipt. */
function receiptOf(id: string): AskedFor {
  return { path: `regulations/${encodeURIComponent(id)}`, method: 'GET' };
}

async function asked(
  options: ControlFlags,
  context: RunContext,
  request: AskedFor,
): Promise<Reply | ExitCode> {
  const reply = await answered(options, context, request);
  if (typeof reply === 'number') return reply;
  const { value, text } = reply;
  if (isRegulation(value)) return { value, text };
  context.err.write('millrace: the server speaks of regulations in another way: is it of this version?\n');
  return 1;
}

/** Shows a receipt, with `--wait` the last one. Ends with 1 when not everything was confirmed. */
async function shown(first: Reply, options: WaitingFlags, context: RunContext): Promise<ExitCode> {
  let now = first;
  while (options.wait === true && now.value.finishedAt === undefined) {
    const stopped = await Promise.race([setTimeout(EVERY), context.stopping.then(() => true)]);
    if (stopped === true) {
      context.err.write(
        `millrace: the server goes on with it. millrace regulation ${now.value.id} shows how far it is.\n`,
      );
      return 1;
    }
    const next = await asked(options, context, receiptOf(now.value.id));
    if (typeof next === 'number') return next;
    now = next;
  }
  context.out.write(options.json === true ? `${now.text}\n` : `${receiptLines(now.value).join('\n')}\n`);
  return isIncomplete(now.value) ? 1 : 0;
}
