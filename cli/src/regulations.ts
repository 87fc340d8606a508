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
import type { ExitCode, Surroundings } from './surroundings.ts';
import { doubtAbout, readUserIds, type UserIdOptions } from './user-ids.ts';

interface WaitingFlags extends ControlFlags {
  readonly json?: boolean;
  readonly wait?: boolean;
}

export interface RegulateOptions extends WaitingFlags, UserIdOptions {
  readonly type: 'DELETE_ONLY' | 'SUPPRESS_WITH_DELETE' | 'SUPPRESS_ONLY' | 'UNSUPPRESS';
  /** Takes along userIds that client sources alone have joined. */
  readonly confirm?: boolean;
  /** Only shows whom it would take. */
  readonly dryRun?: boolean;
  /** Goes on without a question. */
  readonly yes?: boolean;
}

export interface RegulationOptions extends WaitingFlags {
  readonly id: string;
  /** Shows whom it is about instead. */
  readonly subjects?: boolean;
}

/** Milliseconds between two requests for the receipt. */
const EVERY = 250;

/** `millrace delete-user`, `suppress` and `unsuppress`: make a regulation, of as many as the server takes at once. */
export async function regulate(options: RegulateOptions, place: Surroundings): Promise<ExitCode> {
  const request = await regulationRequest(options, place);
  if (request === undefined) return 2;
  if (options.dryRun === true) return await foreseen(options, place, request);
  const code = await askAboutDoubts(options, place, request);
  if (code !== undefined) return code;
  const made = await asked(options, place, request);
  if (typeof made === 'number') return made;
  return await shown(made, options, place);
}

/** The request that makes a regulation. Undefined, with the reason on stderr, where the options name no users. */
async function regulationRequest(
  options: Pick<RegulateOptions, 'type' | 'confirm'> & UserIdOptions,
  place: Surroundings,
): Promise<AskedFor | undefined> {
  const ids = await readUserIds(options, place);
  if (typeof ids !== 'string') {
    const named = options.anonymous === true ? { anonymousIds: ids } : { subjectIds: ids };
    const confirm = options.confirm === true ? { confirm: true } : {};
    return { path: 'regulations', method: 'POST', body: { type: options.type, ...named, ...confirm } };
  }
  place.err.write(`millrace: ${ids}.\n`);
  return undefined;
}

/** Shows whom a regulation would take, with what joined each id. Nothing is done. */
async function foreseen(
  options: RegulateOptions,
  place: Surroundings,
  { body, ...request }: AskedFor,
): Promise<ExitCode> {
  const reply = await answered(options, place, { ...request, body: { ...(body as object), dryRun: true } });
  if (typeof reply === 'number') return reply;
  const isErasing = options.type === 'DELETE_ONLY' || options.type === 'SUPPRESS_WITH_DELETE';
  const lines = isErasing ? foreseenLines : ({ found = [] }: ShownForeseen) => subjectLines(found);
  place.out.write(options.json === true ? `${reply.text}\n` : linesOf(lines(reply.value as ShownForeseen)));
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
 * Asks where ids look as if something stood around them and, by a dry run, name nobody. A code ends the command; undefined goes on.
 */
async function askAboutDoubts(
  options: RegulateOptions,
  place: Surroundings,
  { body, ...request }: AskedFor,
): Promise<ExitCode | undefined> {
  const { subjectIds = [], anonymousIds = [] } = body as NamedIds;
  if (options.yes === true || doubtAbout([...subjectIds, ...anonymousIds]) === undefined) return undefined;
  const reply = await answered(options, place, { ...request, body: { ...(body as object), dryRun: true } });
  if (typeof reply === 'number') return reply;
  const doubt = doubtAbout(unknownIn(reply.value));
  if (doubt === undefined) return undefined;
  if (!canBeAsked(place)) {
    place.err.write(`millrace: ${doubt}. Nothing was done; --yes goes on all the same.\n`);
    return 2;
  }
  return (await isConfirmed(`millrace: ${doubt}. Go on all the same?`, place)) ? undefined : 1;
}

/** The ids that name nobody, by the answer to a dry run. Earlier servers do not say. */
function unknownIn(answer: unknown): readonly string[] {
  const { unknown = [] } = answer as { readonly unknown?: readonly string[] };
  return unknown;
}

/** `millrace regulation ID`. */
export async function regulation(options: RegulationOptions, place: Surroundings): Promise<ExitCode> {
  if (options.subjects === true) return await subjects(options, place);
  const found = await asked(options, place, receiptOf(options.id));
  return typeof found === 'number' ? found : await shown(found, options, place);
}

async function subjects(options: RegulationOptions, place: Surroundings): Promise<ExitCode> {
  const path = `${receiptOf(options.id).path}/subjects`;
  const reply = await answered(options, place, { path, method: 'GET' });
  if (typeof reply === 'number') return reply;
  const { data } = reply.value as { readonly data: readonly ShownSubject[] };
  const none = ['It has ended: whom it was about is not known any more.'];
  const lines = data.length === 0 ? none : subjectLines(data);
  place.out.write(options.json === true ? `${reply.text}\n` : linesOf(lines));
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
  place: Surroundings,
  request: AskedFor,
): Promise<Reply | ExitCode> {
  const reply = await answered(options, place, request);
  if (typeof reply === 'number') return reply;
  const { value, text } = reply;
  if (isRegulation(value)) return { value, text };
  place.err.write('millrace: the server speaks of regulations in another way: is it of this version?\n');
  return 1;
}

/** Shows a receipt, with `--wait` the last one. Ends with 1 when not everything was confirmed. */
async function shown(first: Reply, options: WaitingFlags, place: Surroundings): Promise<ExitCode> {
  let now = first;
  while (options.wait === true && now.value.finishedAt === undefined) {
    const stopped = await Promise.race([setTimeout(EVERY), place.stopping.then(() => true)]);
    if (stopped === true) {
      place.err.write(
        `millrace: the server goes on with it. millrace regulation ${now.value.id} shows how far it is.\n`,
      );
      return 1;
    }
    const next = await asked(options, place, receiptOf(now.value.id));
    if (typeof next === 'number') return next;
    now = next;
  }
  place.out.write(options.json === true ? `${now.text}\n` : `${receiptLines(now.value).join('\n')}\n`);
  return isIncomplete(now.value) ? 1 : 0;
}
